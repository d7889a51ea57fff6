// What files and their sides are called.

import type { DatabaseFile } from '../generated/graph_pb';

/** A name that the build makes when nobody gives it one says when, which tells nothing apart. */
const OF_TIME = /(^|[_-])\d{12,}/;

/** `gem_rope ↔ gem_good` where the file is called by its time, else its name without the suffix. */
export function fileTitle({ file, npuName, benchName }: DatabaseFile): string {
  const stem = file.replace(/\.vis\.db$/, '');
  const folder = stem.slice(0, stem.lastIndexOf('/') + 1);
  if (!OF_TIME.test(stem.slice(folder.length)) || npuName === '') return stem;
  return folder + (benchName === '' ? npuName : `${npuName} ↔ ${benchName}`);
}
