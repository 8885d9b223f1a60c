/* Linear algebra on small dense matrices: lists of rows. */

const zeros = (rows, columns) => Array.from({ length: rows }, () => new Float64Array(columns));
const matrix = (rows, columns, entry) =>
  Array.from({ length: rows }, (_, i) => Float64Array.from({ length: columns }, (_, k) => entry(i, k)));
const identity = (n) => matrix(n, n, (i, k) => (i === k ? 1 : 0));
const transpose = (a) => matrix(a[0].length, a.length, (i, k) => a[k][i]);
const combine = (a, b, entry) => matrix(a.length, a[0].length, (i, k) => entry(a[i][k], b[i][k]));
const scaled = (a, factor) => a.map((row) => row.map((x) => x * factor));
const column = (a, k) => Float64Array.from(a, (row) => row[k]);
const diagonal = (a) => Float64Array.from(a, (row, i) => row[i]);
const total = (list) => list.reduce((sum, x) => sum + x, 0);
const trace = (a) => total(diagonal(a));

function dot(x, y) {
  let sum = 0;
  for (let k = 0; k < x.length; k += 1) sum += x[k] * y[k];
  return sum;
}

const timesVector = (a, x) => Float64Array.from(a, (row) => dot(row, x));

function product(a, b) {
  const width = b[0].length;
  return a.map((row) => {
    const sum = new Float64Array(width);
    for (let k = 0; k < row.length; k += 1) {
      const factor = row[k];
      const other = b[k];
      for (let j = 0; j < width; j += 1) sum[j] += factor * other[j];
    }
    return sum;
  });
}

/* sum of (a @ m) * b over all entries */
const inner = (a, m, b) => total(product(a, m).map((row, i) => dot(row, b[i])));
const squareSum = (a) => total(a.map((row) => dot(row, row)));

/* Eigenvalues, ascending, and eigenvectors as columns, of a symmetric matrix: Householder's
   tridiagonal form, then the QL method with implicit shifts (Wilkinson and Reinsch, 1971). */
function eigen(symmetric) {
  const n = symmetric.length;
  const a = symmetric.map((row) => Float64Array.from(row));
  const values = new Float64Array(n);
  const beside = new Float64Array(n);
  tridiagonal(a, values, beside);
  diagonalise(a, values, beside);
  const order = Array.from(values.keys()).sort((i, k) => values[i] - values[k]);
  return {
    values: Float64Array.from(order, (k) => values[k]),
    vectors: matrix(n, n, (i, k) => a[i][order[k]]),
  };
}

/* Leaves the orthogonal transformation in a. */
function tridiagonal(a, d, e) {
  const n = a.length;
  for (let i = n - 1; i > 0; i -= 1) {
    let h = 0;
    if (i > 1) {
      let scale = 0;
      for (let k = 0; k < i; k += 1) scale += Math.abs(a[i][k]);
      if (scale === 0) {
        e[i] = a[i][i - 1];
      } else {
        for (let k = 0; k < i; k += 1) {
          a[i][k] /= scale;
          h += a[i][k] * a[i][k];
        }
        const f = a[i][i - 1];
        const g = f >= 0 ? -Math.sqrt(h) : Math.sqrt(h);
        e[i] = scale * g;
        h -= f * g;
        a[i][i - 1] = f - g;
        let sum = 0;
        for (let j = 0; j < i; j += 1) {
          a[j][i] = a[i][j] / h;
          let along = 0;
          for (let k = 0; k <= j; k += 1) along += a[j][k] * a[i][k];
          for (let k = j + 1; k < i; k += 1) along += a[k][j] * a[i][k];
          e[j] = along / h;
          sum += e[j] * a[i][j];
        }
        const half = sum / (h + h);
        for (let j = 0; j < i; j += 1) {
          const x = a[i][j];
          e[j] -= half * x;
          for (let k = 0; k <= j; k += 1) a[j][k] -= x * e[k] + e[j] * a[i][k];
        }
      }
    } else {
      e[i] = a[i][i - 1];
    }
    d[i] = h;
  }
  d[0] = 0;
  e[0] = 0;
  for (let i = 0; i < n; i += 1) {
    if (d[i] !== 0) {
      for (let j = 0; j < i; j += 1) {
        let along = 0;
        for (let k = 0; k < i; k += 1) along += a[i][k] * a[k][j];
        for (let k = 0; k < i; k += 1) a[k][j] -= along * a[k][i];
      }
    }
    d[i] = a[i][i];
    a[i][i] = 1;
    for (let j = 0; j < i; j += 1) {
      a[j][i] = 0;
      a[i][j] = 0;
    }
  }
}

function diagonalise(z, d, e) {
  const n = d.length;
  e.copyWithin(0, 1);
  e[n - 1] = 0;
  for (let l = 0; l < n; l += 1) {
    for (let turn = 0; turn < 100; turn += 1) {
      let m = l;
      while (m < n - 1) {
        const size = Math.abs(d[m]) + Math.abs(d[m + 1]);
        if (Math.abs(e[m]) <= Number.EPSILON * size) break;
        m += 1;
      }
      if (m === l) break;
      let g = (d[l + 1] - d[l]) / (2 * e[l]);
      let r = Math.hypot(g, 1);
      g = d[m] - d[l] + e[l] / (g + (g >= 0 ? r : -r));
      let s = 1;
      let c = 1;
      let p = 0;
      let i = m - 1;
      for (; i >= l; i -= 1) {
        const f = s * e[i];
        const b = c * e[i];
        r = Math.hypot(f, g);
        e[i + 1] = r;
        if (r === 0) {
          d[i + 1] -= p;
          e[m] = 0;
          break;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        for (const row of z) {
          const x = row[i + 1];
          row[i + 1] = s * row[i] + c * x;
          row[i] = c * row[i] - s * x;
        }
      }
      if (r === 0 && i >= l) continue;
      d[l] -= p;
      e[l] = g;
      e[m] = 0;
    }
  }
}

/* vectors * values @ vectors.T */
function compose(vectors, values) {
  const weighed = vectors.map((row) => row.map((x, k) => x * values[k]));
  return matrix(vectors.length, vectors.length, (i, k) => dot(weighed[i], vectors[k]));
}

function symmetricRoot(covariance) {
  const { values, vectors } = eigen(covariance);
  return compose(vectors, values.map((x) => Math.sqrt(Math.max(x, 0))));
}

/* The lower triangle L of a = L L.T. */
function cholesky(a) {
  const n = a.length;
  const lower = zeros(n, n);
  for (let i = 0; i < n; i += 1) {
    for (let k = 0; k <= i; k += 1) {
      let sum = a[i][k];
      for (let j = 0; j < k; j += 1) sum -= lower[i][j] * lower[k][j];
      lower[i][k] = i === k ? Math.sqrt(sum) : sum / lower[k][k];
    }
  }
  return lower;
}

/* The x of a x = b for every column of b: elimination with the largest pivot. */
function solve(a, b) {
  const n = a.length;
  const rows = a.map((row, i) => Float64Array.from([...row, ...b[i]]));
  const width = rows[0].length;
  for (let k = 0; k < n; k += 1) {
    let pivot = k;
    for (let i = k + 1; i < n; i += 1) {
      if (Math.abs(rows[i][k]) > Math.abs(rows[pivot][k])) pivot = i;
    }
    [rows[k], rows[pivot]] = [rows[pivot], rows[k]];
    for (let i = 0; i < n; i += 1) {
      const factor = i === k ? 0 : rows[i][k] / rows[k][k];
      if (factor) for (let j = k; j < width; j += 1) rows[i][j] -= factor * rows[k][j];
    }
  }
  return rows.map((row, i) => row.slice(n).map((x) => x / row[i]));
}

const inverse = (a) => solve(a, identity(a.length));

export {
  cholesky,
  column,
  combine,
  compose,
  diagonal,
  dot,
  eigen,
  inner,
  inverse,
  matrix,
  product,
  scaled,
  solve,
  squareSum,
  symmetricRoot,
  timesVector,
  total,
  trace,
  transpose,
  zeros,
};
