/** Texts of the page of trends. */
export const trendEn = {
  title: 'Trends',
  open: 'Trends over many steps',
  none: 'There is no file ending in .trend.db below the log directory. Make one, then look again:',
  file: 'Run',
  other: 'Minus',
  noOther: 'nothing',
  statistic: 'Statistic',
  kind: 'Kind',
  allKinds: 'All',
  filter: 'Name contains',
  fixed: 'Hold',
  fixedBy: { rank: 'Rank', step: 'Step', target: 'Tensor' },
  at: 'At',
  range: 'Steps',
  reset: 'All steps',
  rows: (count: string) => `${count} rows`,
  map: 'Heat map: rows by columns; arrows move, Enter looks for the graph',
  hint: 'Colour: how far a value is from the median of its row; dots mark outliers. The wheel zooms the steps with Ctrl and moves along them with Shift; a click shows a value and its curve.',
  hintDifference:
    'Colour: the relative difference by powers of ten; dots mark more than 1 %. The wheel zooms the steps with Ctrl and moves along them with Shift; a click shows a value and its curve.',
  value: (name: string, step: string, rank: number, value: string) =>
    `${name}, step ${step}, rank ${rank}: ${value}`,
  nothing: 'nothing recorded',
  graphs: 'Look at the graph of this step and rank',
  noGraph: 'No .vis.db file below the log directory holds this step and rank.',
  gone: (name: string) => `The link asks for ${name}, which is not below the log directory.`,
};
