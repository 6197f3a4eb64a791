#include "reel/attention/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reel/base/sized.h"

namespace reel::attention {

namespace {

double dot(const float* a, const float* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t c = 0; c < n; ++c) sum += static_cast<double>(a[c]) * b[c];
  return sum;
}

// f(b, h, query, tokens of its list)
template <class F>
void for_each_query(const lists::KeyLists& lists, const F& f) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t b = 0; b < lists.batch; ++b) {
    for (std::int64_t h = 0; h < lists.heads; ++h) {
      for (std::int64_t g = 0; g < lists.groups(); ++g) {
        lists.tokens(b, h, g, tokens);
        for (std::int64_t i = lists.group_starts[sized(g)]; i < lists.group_starts[sized(g) + 1]; ++i) {
          f(b, h, i, tokens);
        }
      }
    }
  }
}

}  // namespace

ReferenceResult reference_forward(const Input& in, const lists::KeyLists& lists) {
  const auto& [batch, heads, queries, keys, d] = in.shape;
  ReferenceResult result;
  result.out.assign(sized(batch * heads * queries * d), 0.0);
  result.lse.assign(sized(batch * heads * queries), -std::numeric_limits<double>::infinity());
  for_each_query(lists, [&](std::int64_t b, std::int64_t h, std::int64_t i, const std::vector<std::int32_t>& tokens) {
    if (tokens.empty()) return;
    const std::int64_t row = (b * in.shape.heads + h) * in.shape.queries + i;
    std::vector<double> p(tokens.size());
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::size_t j = 0; j < tokens.size(); ++j) {
      p[j] = in.scale * dot(in.q.at(b, h, i), in.k.at(b, h, tokens[j]), in.shape.head_dim);
      largest = std::max(largest, p[j]);
    }
    for (double& x : p) sum += x = std::exp(x - largest);
    result.lse[sized(row)] = largest + std::log(sum);
    double* out = result.out.data() + row * in.shape.head_dim;
    for (std::size_t j = 0; j < tokens.size(); ++j) {
      for (std::int64_t c = 0; c < in.shape.head_dim; ++c) out[c] += p[j] / sum * in.v.at(b, h, tokens[j])[c];
    }
  });
  return result;
}

void reference_backward(const Input& in, const lists::KeyLists& lists, ConstView dout, ReferenceResult& result) {
  const Shape& s = in.shape;
  const std::int64_t d = s.head_dim;
  result.dq.assign(sized(s.batch * s.heads * s.queries * d), 0.0);
  result.dk.assign(sized(s.batch * s.heads * s.keys * d), 0.0);
  result.dv.assign(sized(s.batch * s.heads * s.keys * d), 0.0);
  for_each_query(lists, [&](std::int64_t b, std::int64_t h, std::int64_t i, const std::vector<std::int32_t>& tokens) {
    const std::int64_t head = b * s.heads + h, row = head * s.queries + i;
    const double* out = result.out.data() + row * d;
    double* dq = result.dq.data() + row * d;
    double delta = 0;
    for (std::int64_t c = 0; c < d; ++c) delta += out[c] * dout.at(b, h, i)[c];
    for (std::int64_t j : tokens) {
      const float *q = in.q.at(b, h, i), *k = in.k.at(b, h, j), *v = in.v.at(b, h, j), *g = dout.at(b, h, i);
      const double p = std::exp(in.scale * dot(q, k, d) - result.lse[sized(row)]);
      const double ds = p * (dot(g, v, d) - delta) * in.scale;
      double *dk = result.dk.data() + (head * s.keys + j) * d, *dv = result.dv.data() + (head * s.keys + j) * d;
      for (std::int64_t c = 0; c < d; ++c) {
        dq[c] += ds * k[c];
        dk[c] += ds * q[c];
        dv[c] += p * g[c];
      }
    }
  });
}

}  // namespace reel::attention
