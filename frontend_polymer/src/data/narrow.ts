/** Whole numbers, one per node, in as little room as they need. */
export type Integers = Uint8Array | Int8Array | Uint16Array | Int16Array | Int32Array;

/** The same of levels, which are never negative. */
export type Depths = Uint8Array | Uint16Array;

/** The same numbers in the narrowest array that holds them: a page of a million nodes has many. */
export function narrowed(values: Int32Array | Uint8Array): Integers {
  if (values instanceof Uint8Array) return values;
  let [least, most] = [0, 0];
  // By index, which takes half as long as an iterator.
  let index = values.length;
  while (index-- > 0) {
    const value = values[index]!;
    if (value < least) least = value;
    else if (value > most) most = value;
  }
  if (least >= 0 && most < 2 ** 8) return new Uint8Array(values);
  if (least >= -(2 ** 7) && most < 2 ** 7) return new Int8Array(values);
  if (least >= 0 && most < 2 ** 16) return new Uint16Array(values);
  if (least >= -(2 ** 15) && most < 2 ** 15) return new Int16Array(values);
  return values;
}
