type Pair = readonly [first: number, second: number];

/** The longest subsequence whose second values increase (patience sorting, O(n log n)). */
export function longestIncreasing(pairs: Pair[]): Pair[] {
  if (isIncreasing(pairs)) return pairs;
  const tails: number[] = []; // index of the smallest last element per length
  const before = new Int32Array(pairs.length);
  for (let index = 0; index < pairs.length; index++) {
    const value = pairs[index]![1];
    let low = 0;
    let high = tails.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[tails[middle]!]![1] < value) low = middle + 1;
      else high = middle;
    }
    before[index] = low > 0 ? tails[low - 1]! : -1;
    tails[low] = index;
  }
  const longest: Pair[] = [];
  for (let index = tails.at(-1) ?? -1; index >= 0; index = before[index]!) {
    longest.push(pairs[index]!);
  }
  return longest.reverse();
}

function isIncreasing(pairs: Pair[]): boolean {
  for (let index = 1; index < pairs.length; index++) {
    if (pairs[index - 1]![1] >= pairs[index]![1]) return false;
  }
  return true;
}
