/* The normal distribution and the incomplete beta function, to nearly all digits of a double. */

/* Rational approximations of erf and erfc: S. L. Moshier, "Methods and Programs for Mathematical
   Functions" (1989), as in Cephes. */
const ERF = [
  [9.60497373987051638749, 9.00260197203842689217e1, 2.23200534594684319226e3,
    7.00332514112805075473e3, 5.55923013010394962768e4],
  [1, 3.35617141647503099647e1, 5.21357949780152679795e2, 4.59432382970980127987e3,
    2.26290000613890934246e4, 4.92673942608635921086e4],
];
const ERFC_NEAR = [ // from 1 to 8, of exp(x^2) erfc(x)
  [2.4619698147353051e-10, 5.64189564831068821977e-1, 7.46321056442269912687,
    4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2,
    9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2],
  [1, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2,
    9.75708501743205489753e2, 1.82390916687909736289e3, 2.24633760818710981792e3,
    1.65666309194161350182e3, 5.57535340817727675546e2],
];
const ERFC_FAR = [
  [5.64189583547755073984e-1, 1.27536670759978104416, 5.01905042251180477414,
    6.16021097993053585195, 7.40974269950448939160, 2.97886665372100240670],
  [1, 2.26052863220117276590, 9.39603524938001434673, 1.20489539808096656605e1,
    1.70814450747565897222e1, 9.60896809063285878198, 3.36907645100081516050],
];

function polynomial(coefficients, x) {
  let value = 0;
  for (let k = 0; k < coefficients.length; k += 1) value = value * x + coefficients[k];
  return value;
}

const quotient = ([above, below], x) => polynomial(above, x) / polynomial(below, x);
const erf = (x) => x * quotient(ERF, x * x); // for |x| <= 1
const scaledErfc = (x) => quotient(x < 8 ? ERFC_NEAR : ERFC_FAR, x); // exp(x^2) erfc(x), x >= 1

function erfc(x) {
  if (x < -1) return 2 - erfc(-x);
  if (x <= 1) return 1 - erf(x);
  return x > 30 ? 0 : Math.exp(-x * x) * scaledErfc(x);
}

/* The normal distribution function. */
function phi(x) {
  const z = x * Math.SQRT1_2;
  if (z < -1) return 0.5 * erfc(-z);
  if (z <= 1) return 0.5 + 0.5 * erf(z);
  return z === Infinity ? 1 : 1 - 0.5 * erfc(z);
}

function logPhi(x) {
  if (x > 0) return Math.log1p(-phi(-x));
  const z = -x * Math.SQRT1_2;
  if (z <= 1) return Math.log(phi(x));
  return z === Infinity ? -Infinity : Math.log(0.5 * scaledErfc(z)) - z * z;
}

/* The inverse: a rough start, then steps of Halley's method. */
function phiInverse(p) {
  if (!(p > 0 && p < 1)) return p === 0 ? -Infinity : p === 1 ? Infinity : NaN;
  if (p > 0.5) return -phiInverse(1 - p);
  const t = Math.sqrt(-2 * Math.log(p));
  let x = // Abramowitz and Stegun, 26.2.23
    (2.515517 + t * (0.802853 + t * 0.010328)) /
      (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
  for (let step = 0; step < 4; step += 1) {
    const log = logPhi(x);
    const slope = Math.exp(-0.5 * x * x - log) / Math.sqrt(2 * Math.PI); // of log phi
    const newton = (log - Math.log(p)) / slope;
    x -= newton / (1 + 0.5 * newton * (x + slope));
  }
  return x;
}

const expit = (x) => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)));

const LANCZOS = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
  -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
  1.5056327351493116e-7,
];

function logGamma(x) {
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const z = x - 1;
  const t = z + 7.5;
  const sum = LANCZOS.reduce((all, c, k) => all + (k ? c / (z + k) : c), 0);
  return 0.5 * Math.log(2 * Math.PI) + (z + 0.5) * Math.log(t) - t + Math.log(sum);
}

/* The regularised incomplete beta function, by its continued fraction (Lentz's method). */
function betaInc(a, b, x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - betaInc(b, a, 1 - x);
  const away = (y) => (Math.abs(y) < 1e-300 ? 1e-300 : y);
  let c = 1;
  let d = 1 / away(1 - ((a + b) * x) / (a + 1));
  let fraction = d;
  for (let m = 1; m < 10_000; m += 1) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    let change = 1;
    for (const term of [even, odd]) {
      d = 1 / away(1 + term * d);
      c = away(1 + term / c);
      change = c * d;
      fraction *= change;
    }
    if (Math.abs(change - 1) < 1e-16) break;
  }
  const front = a * Math.log(x) + b * Math.log1p(-x) + logGamma(a + b) - logGamma(a) - logGamma(b);
  return (Math.exp(front) * fraction) / a;
}

export { betaInc, erfc, expit, logPhi, phi, phiInverse };
