export const noticesEn = {
  exposed:
    'Other machines can reach this TensorBoard, and whoever does may look at these files and match nodes. ' +
    'With --graph_ascend_readonly they may only look.',
  understood: 'Understood',
  coloursLate:
    'The other ways to colour are still being worked out; they can be chosen here once they are there.',
  coloursFailed: (why: string) => `The other ways to colour cannot be had: ${why}`,
  convert: 'Import this file',
  converting: 'Importing …',
  convertHint: 'Writes a new file beside it, with its matches; this one stays as it is.',
};
