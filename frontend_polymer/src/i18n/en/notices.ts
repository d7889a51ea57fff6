export const noticesEn = {
  exposed:
    'Other machines can reach this TensorBoard, and whoever does may look at these files and match nodes. ' +
    'With --graph_ascend_readonly they may only look.',
  understood: 'Understood',
  convert: 'Import this file',
  converting: 'Importing …',
  convertHint: 'Writes a new file beside it, with its matches; this one stays as it is.',
};
