/* Points that stand for normal variables, and normal numbers that are the same ones each time. */

import { erfc, phiInverse } from "./special.js";

/* Joe and Kuo's direction numbers: a word for each variable, nine numbers in units of 1/512. */
const SOBOL = `
  100080040020010008004002001 1001801401e01101981541fe101 1001800c01201d00b811c18a0d1
  1001800400a01f00e81441261b1 1000800401601f01b80f413a0b5 1000800c00601900480ac1f61c1
  1001801401a00b012807c1c617d 1000801400a011004802405a0ed 1000801400a00501a80d40e2071
  1000801c01601301281140b6067 1000801400200100d813c0460af 1000800400600b015812c0561a9
  1001801400a01f01181c406601f 1001800c01200701880841461e3 1000800401e01500a813413a03d
  1001800401a01b018808c10a14b 1000800401e00700281ec0ce11f 1001800401e00d00c806c0da083
  1000801400a01301e815c1761cf 1001801c016017007819c082043 1001801c01a00d00781140a2153
  1000800c01a00701180fc0e2191 1001801401200100c80d411214b 1001800401a00901181ac0721ab
  1001800400a01b01e807c12a11f 1000801401601301480f41aa005 10018014006003006811413a0cf
  1000801c01a001009800416a06d 1001801c00a00d00980ec1ee06d 1000800c01201900e80a40061d7
  1001801401a01700080dc12e1e5 1001801c00600d01d804405606d 1001800400600501a81141fe109
  1000801400a017010803415e17b 1000801c00e00101e81ec116193 1000801c01200d01e80c41be0f3
  1001800c00a00301b808406e041 1001800401e01f00680c41ea151 1001801401e01f01d80fc0c20b9
  1001800401600b00581341f2079 1001800401601b015811c01213d 1000801c01e015005814405a1b5
  1001801c00601900f810409e17d 10018004002013005800c19a115 1000801401201300a807413a0fd
  1001801c016001010816417217d 1001800c00600f004813c08e0cf 1001801c01600f01381dc036197
  1000800c00200b00f81841c201b 1000800400601701580e4162007 1001801c00e011008809408e1bb
  1001800400a01b01f81ec1aa17f 1000800c00a00b01580d410a1f7 1001801400a01d00880bc15a1df
  1001800c01600300081b4012045 1000800400a011013805c00a157 1001800400a019007807c0ce1f3
  1000800401600b00880fc0d20b7 1000801401600900e81841ce16b 1000801401e01301680a400e17f
  1001801c00e01f009814c1120dd 1000800400601700781bc1be053 1000801401a01f00780dc0320a1
  1000800c01a019017809c0ae101 1000800401601501a81f41f2125 1000801c01600b00380e409e143
  1000801400a0110068144006083 1000801c01a01700381041f61db 10018014002009015800c12a00b
  1000800c01a01f00680341fe1e7 1001800c00200501f81640b607f 1000800c00600100981ec0fe0ed
  1000801400e01700f80941e6121 1000801401601101a81d416e1eb 1000800400a00100680341a2159
  1000800c01e00101c81cc00e021 10018004016007015814419e0af 1001800400200f00d80fc1fe031
  1001801400601b01e81a4156131 1000801400600100180e41f2095 1000800c00a00501c803c01a09f
  1000800401600700581a411a0e1 1001800c00a01b01d81e40ca10f 1001801401200b01880cc076073
  1000801c00201701681f408e1a3 1000800c00a01700281a40da04b 1000801c01e007005810c0f21c5
  1001801c006009006807c0361c1 1001800401e013013809c0b200f 10008004002001010812412217b
  1001800401e00f015807401a1e3 1000801c00601300d81541061af 1001800c006005011805c18615d
  1001800c00e00900d809c076129 1000800c01200b00880341e209d 1001801c01e01901c808417a0d5
  1000801c00200901b81240a60d9 1001800c01a01300d805c0e20f9 10018014006017015800c1fa1df
  1000801400a00b00280b40ea0d9
`;

/* m points of `width` independent normal variables: Sobol's sequence for more than one. */
function normalPoints(width, m) {
  if (width === 1) return Array.from({ length: m }, (_, k) => [phiInverse((k + 0.5) / m)]);
  const points = Array.from({ length: m }, () => new Float64Array(width));
  SOBOL.trim().split(/\s+/).slice(0, width).forEach((word, k) => {
    const numbers = word.match(/.../g).map((digits) => parseInt(digits, 16));
    let x = 0;
    for (let i = 0; i < m; i += 1) {
      points[i][k] = phiInverse(x / 512 + 0.5 / m);
      const lowestZero = 31 - Math.clz32(~i & (i + 1));
      if (i < 511) x ^= numbers[lowestZero];
    }
  });
  return points;
}

/* PCG64 (XSL-RR): words of 64 bits. */
function* words() {
  const mask = 2n ** 64n - 1n;
  let state = 35399562948360463058890781895381311971n;
  for (;;) {
    state = state * 47026247687942121848144207491837523525n + 87136372517582989555478159403783844777n;
    state = BigInt.asUintN(128, state);
    const x = (state >> 64n) ^ (state & mask);
    const turn = state >> 122n;
    yield ((x >> turn) | (x << (64n - turn))) & mask;
  }
}

const LAYERS = 256;
const TAIL = 3.6541528853610088; // where the tail begins

/* Widths, heights and safe insides of the layers of a ziggurat. */
function ziggurat() {
  const half = (x) => Math.exp((-x * x) / 2);
  const area = TAIL * half(TAIL) + Math.sqrt(Math.PI / 2) * erfc(TAIL / Math.SQRT2);
  const x = new Float64Array(LAYERS);
  const height = new Float64Array(LAYERS);
  const inside = new Float64Array(LAYERS);
  x[255] = TAIL;
  height[255] = half(TAIL);
  height[0] = 1;
  x[0] = area / height[255];
  inside[0] = TAIL / x[0];
  for (let i = 254; i > 0; i -= 1) {
    x[i] = Math.sqrt(-2 * Math.log(area / x[i + 1] + height[i + 1]));
    inside[i + 1] = x[i] / x[i + 1];
    height[i] = half(x[i]);
  }
  return {
    width: x.map((one) => one * 2 ** -52),
    height,
    inside: inside.map((one) => Math.floor(one * 2 ** 52)),
  };
}

/* A function that draws the next normal number, from the first one on. */
function normalNumbers() {
  const { width, height, inside } = ziggurat();
  const source = words();
  const word = () => source.next().value;
  const unit = () => Number(word() >> 11n) * 2 ** -53;

  function tail(sign) {
    for (;;) {
      const far = -Math.log1p(-unit()) / TAIL;
      const down = -Math.log1p(-unit());
      if (down + down > far * far) return sign * (TAIL + far);
    }
  }
  return () => {
    for (;;) {
      const bits = word();
      const layer = Number(bits & 255n);
      const size = Number((bits >> 9n) & (2n ** 52n - 1n));
      const x = size * width[layer] * ((bits >> 8n) & 1n ? -1 : 1);
      if (size < inside[layer]) return x;
      if (layer === 0) return tail((size >> 8) & 1 ? -1 : 1);
      const y = (height[layer - 1] - height[layer]) * unit() + height[layer];
      if (y < Math.exp(-0.5 * x * x)) return x;
    }
  };
}

export { normalNumbers, normalPoints };
