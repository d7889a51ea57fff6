export const shellEn = {
  copyLink: 'Copy a link to this view',
  linkCopied: 'Link copied. It opens this view for everyone who reaches this TensorBoard.',
  linkShortened: 'Link copied. Too much is unfolded for a link: it holds what is in view.',
  linkFailed: 'The browser does not allow copying here; the address bar holds the same link.',
  page: {
    readOnly: 'This page holds its own data and can be read, not changed.',
    graphs: (held: number, all: number) => `It has ${held} of ${all} steps and ranks.`,
    tensors: (count: string) =>
      `To keep it small, the tensors of ${count} nodes without error were left out.`,
    join: ' ',
  },
  palette: 'Command palette',
  command: 'Command',
  palettePlaceholder: 'Type a command, a step and rank, a file or a node’s name',
  firstError: 'Go to the first error',
  matchSelected: 'Match the selected node by hand: choose its partner',
  matchDrag: 'Match two nodes by hand: pull one to the other',
  nextRank: 'Next rank',
  previousRank: 'Previous rank',
  nextStep: 'Next step',
  previousStep: 'Previous step',
  view: 'View',
  foldLayers: 'Fold repeated layers into one row',
  bothSides: 'Both sides',
  onlyDebug: 'Debug side only',
  onlyReference: 'Reference side only',
  savePng: 'Save as PNG image',
  saveSvg: 'Save as SVG image',
  saved: (name: string) => `Saved as ${name}`,
  saveFailed: (why: string) => `The image could not be made: ${why}`,
  imageTitle: (file: string, step: number, rank: number) => `${file} · step ${step} · rank ${rank}`,
  imageMicroStep: (micro: number) => `micro-step ${micro}`,

  reload: 'Load again',
  news: {
    changed: (file: string) =>
      `${file} has changed since it was loaded. What is shown is the state before.`,
    gone: (file: string) =>
      `${file} is no longer below the log directory. What is shown was loaded before.`,
    broken: (file: string) =>
      `${file} can no longer be read. What is shown was loaded before; load again to see why.`,
  },
  separator: '; ',
  notThere: (what: string) => `The address does not fit this file: ${what}.`,
  unmet: {
    place: (wanted: string) => `step and rank ${wanted} are not in it, the nearest are shown`,
    microStep: (wanted: string) => `micro-step ${wanted} is not in it, all are shown`,
    node: (wanted: string) => `no node is called ${wanted}`,
    look: () => 'what was unfolded belongs to another model',
    malformed: (wanted: string) => `“${wanted}” means nothing here`,
  },
  otherFile: (file: string) => `Show ${file}`,
};
