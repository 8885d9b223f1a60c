/* MessagePack, as far as statements and evidence need it. Tables are Maps: their keys come from
   others. */

import { Double, concatenate, isInteger, readUtf8, utf8 } from "./bytes.js";

const DEEPEST = 100;

function unpack(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;

  function unsigned(size) {
    const from = at;
    at += size;
    if (size === 8) return integer(view.getBigUint64(from));
    return [view.getUint8, view.getUint16, null, view.getUint32][size - 1].call(view, from);
  }
  function signed(size) {
    const from = at;
    at += size;
    if (size === 8) return integer(view.getBigInt64(from));
    return [view.getInt8, view.getInt16, null, view.getInt32][size - 1].call(view, from);
  }
  function integer(big) {
    const number = Number(big);
    if (!Number.isSafeInteger(number)) throw new RangeError("an integer beyond 2^53");
    return number;
  }
  function part(length) {
    if (at + length > bytes.length) throw new RangeError("the content ends too early");
    at += length;
    return bytes.slice(at - length, at);
  }
  const text = (length) => readUtf8(part(length));
  function list(length, depth) {
    if (length > bytes.length) throw new RangeError("a list longer than the content");
    return Array.from({ length }, () => value(depth + 1));
  }
  function table(length, depth) {
    const entries = new Map();
    for (let i = 0; i < length; i += 1) {
      const key = value(depth + 1);
      if (typeof key !== "string" || entries.has(key)) throw new TypeError("a bad key");
      entries.set(key, value(depth + 1));
    }
    return entries;
  }
  function double() {
    at += 8;
    return new Double(view.getFloat64(at - 8));
  }
  function value(depth) {
    if (depth > DEEPEST) throw new RangeError("nested too deeply");
    const code = unsigned(1);
    if (code < 0x80) return code;
    if (code < 0x90) return table(code & 15, depth);
    if (code < 0xa0) return list(code & 15, depth);
    if (code < 0xc0) return text(code & 31);
    if (code >= 0xe0) return code - 256;
    if (code === 0xc0) return null;
    if (code === 0xc2 || code === 0xc3) return code === 0xc3;
    if (code >= 0xc4 && code <= 0xc6) return part(unsigned(2 ** (code - 0xc4)));
    if (code === 0xcb) return double();
    if (code >= 0xcc && code <= 0xcf) return unsigned(2 ** (code - 0xcc));
    if (code >= 0xd0 && code <= 0xd3) return signed(2 ** (code - 0xd0));
    if (code >= 0xd9 && code <= 0xdb) return text(unsigned(2 ** (code - 0xd9)));
    if (code === 0xdc || code === 0xdd) return list(unsigned(code === 0xdc ? 2 : 4), depth);
    if (code === 0xde || code === 0xdf) return table(unsigned(code === 0xde ? 2 : 4), depth);
    throw new TypeError("a type that no statement has");
  }
  const whole = value(0);
  if (at !== bytes.length) throw new RangeError("bytes behind the content");
  return whole;
}

/* The one spelling of a value: the shortest form of everything. */
function pack(value) {
  const head = (code, size, number) => {
    const bytes = new Uint8Array(1 + size);
    const view = new DataView(bytes.buffer);
    bytes[0] = code;
    if (size === 1) view.setUint8(1, number);
    if (size === 2) view.setUint16(1, number);
    if (size === 4) view.setUint32(1, number);
    if (size === 8) view.setBigInt64(1, BigInt(number));
    return bytes;
  };
  const counted = (length, short, most, codes) => {
    if (length <= most) return Uint8Array.of(short | length);
    const k = codes.findIndex(([, size]) => length < 2 ** (8 * size));
    return head(...codes[k], length);
  };
  if (value === null) return Uint8Array.of(0xc0);
  if (typeof value === "boolean") return Uint8Array.of(value ? 0xc3 : 0xc2);
  if (value instanceof Double) {
    const bytes = head(0xcb, 8, 0);
    new DataView(bytes.buffer).setFloat64(1, value.value);
    return bytes;
  }
  if (isInteger(value)) return packInteger(value, head);
  if (typeof value === "string") {
    const bytes = utf8(value);
    const codes = [[0xd9, 1], [0xda, 2], [0xdb, 4]];
    return concatenate(counted(bytes.length, 0xa0, 31, codes), bytes);
  }
  if (value instanceof Uint8Array) {
    const codes = [[0xc4, 1], [0xc5, 2], [0xc6, 4]];
    return concatenate(counted(value.length, 0, -1, codes), value);
  }
  if (Array.isArray(value)) {
    const codes = [[0xdc, 2], [0xdd, 4]];
    return concatenate(counted(value.length, 0x90, 15, codes), ...value.map(pack));
  }
  const items = [...value].flatMap(([key, item]) => [pack(key), pack(item)]);
  const codes = [[0xde, 2], [0xdf, 4]];
  return concatenate(counted(value.size, 0x80, 15, codes), ...items);
}

function packInteger(x, head) {
  if (x >= 0) {
    if (x < 0x80) return Uint8Array.of(x);
    const size = [1, 2, 4].find((bytes) => x < 2 ** (8 * bytes)) ?? 8;
    return head(0xcc + Math.log2(size), size, x);
  }
  if (x >= -32) return Uint8Array.of(256 + x);
  const size = [1, 2, 4].find((bytes) => x >= -(2 ** (8 * bytes - 1))) ?? 8;
  return head(0xd0 + Math.log2(size), size, x);
}

export { pack, unpack };
