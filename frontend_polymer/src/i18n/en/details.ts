/** What is said about one node: its peers, its origin, its other steps and ranks, its table. */
export const detailsEn = {
  back: {
    label: 'Back',
    to: (name: string, step: number, rank: number) => `Back to ${name}, step ${step}, rank ${rank}`,
    nothing: 'no node',
    none: 'There is no jump to go back from.',
  },

  communication: {
    tab: 'Communication',
    count: (count: string) => (count === '1' ? '1 peer' : `${count} peers`),
    caption: 'Calls of other ranks that this call exchanges data with',
    role: 'What happens',
    rank: 'Rank',
    step: 'Step',
    node: 'Node',
    grade: 'Grade',
    data: 'Data',
    why: 'Linked because',
    roles: {
      send: 'sends to',
      receive: 'receives from',
      send_receive: 'exchanges with',
    },
    equal: 'equal',
    equalHint: 'What one call sent is what the other received',
    differs: 'differs',
    differsHint:
      'What one call sent is not what the other received: the link is broken, or the memory was changed too early',
    unknown: 'cannot be told',
    unknownHint: 'The statistics of this operation do not tell whether the data are the same',
    whyMessage: 'same sender, receiver, group and tag; messages counted in order',
    whyRoot: (operation: string) => `same call of ${operation} with the same group and root`,
    whyGroup: (operation: string) => `same call of ${operation} in the same group`,
    goTo: (name: string, rank: number) => `Go to ${name} on rank ${rank}`,
    none: (operation: string) =>
      `No call on another rank of this file belongs to this ${operation}. Either the ranks it addresses were not dumped, or their call is missing; the notes from the build say which.`,
    single: (operation: string) =>
      `This file holds one rank of the step, so this ${operation} has no calls to be linked with.`,
  },

  operatorCheck: {
    name: 'Operator',
    hint: 'The operator itself was run again on the tensors of the dump (msprobe-operators check).',
    statuses: { passed: 'passed', failed: 'failed', 'not tested': 'not tested' },
    times: (times: string) => `(${times} × rounding)`,
    against: {
      recorded: 'Compared with the result in the dump.',
      device: 'Compared with a second run on the device.',
    },
  },

  origin: {
    from: (ranks: string) => `Merged from ranks ${ranks}`,
    fromOne: (rank: string) => `From rank ${rank}`,
    hint: 'The ranks of the parallel run that this node was merged from',
    how: 'How it was merged',
    showAll: 'How values were merged',
    showAllHint: 'Show below each tensor how its values were made from those of the ranks',
    unknown: 'unknown',
    statistic: 'Statistic',
    rule: 'Rule',
    rank: (rank: string) => `Rank ${rank}`,
    merged: 'Merged',
    rules: {
      max: 'largest of all ranks',
      min: 'smallest of all ranks',
      mean: 'mean, weighted by the number of elements',
      norm: '√ of the sum of squares',
    },
    kinds: {
      shards: 'Shards put together',
      partial: 'Partial results, reduced',
      lostTotal: 'Unknown: partial sums without a total',
      unknown: 'Unknown: depends on the rank',
      replica: 'Replica: alike on all ranks',
      copy: 'As recorded by one rank',
      other: 'Merged',
    },
    shards: (ranks: string, dimension: string) =>
      `Each of the ranks ${ranks} holds a part, cut along dimension ${dimension}.`,
    apart: (found: string) => `Disagreement: ${found}.`,
    orderUntold: 'Statistics cannot tell whether the elements are in their places.',
    because: (reason: string) => `Because ${reason}.`,
    shardsUnknown: (ranks: string) =>
      `Each of the ranks ${ranks} holds a part. Nothing tells along which dimension it was cut, so the shape of the whole is unknown; the values are not.`,
    partial:
      'Each rank computed a part of the sum. Shown is what the reduction over the ranks put out.',
    lostTotal:
      'Each rank computed a part of the sum, and the dump does not hold the total. The values are left unknown, not invented.',
    unknownWhy:
      'Every rank has its own value that is never reduced to one. The values are left unknown, not invented.',
    replica: (rank: string) =>
      `The ranks compute this alike; shown is what rank ${rank} recorded. Disagreement is reported in the notes from the build.`,
    copy: (rank: string) => `Recorded by rank ${rank} as it is shown.`,
    before: (rank: string) => `Before that, on rank ${rank}`,
    stage: (stage: string, ranks: string) =>
      `Taken from pipeline stage ${stage}, that is from ranks ${ranks}.`,
    unknownCell: 'Unknown after merging',
  },

  across: {
    tab: 'Steps and ranks',
    label: 'The same node in all steps and ranks',
    measure: 'Shown',
    error: 'Error',
    overflow: 'Overflow',
    rank: 'Rank',
    step: 'Step',
    cell: (step: number, rank: number) => `Step ${step}, rank ${rank}`,
    missing: 'no node of this name',
    here: 'shown now',
    current: 'Shown now',
    height: 'Gauge: 0 to 1. Colour and bars: grade. Click goes there.',
    onlyOverflow: 'Without a reference there is no error; shown is the overflow. Click goes there.',
    onlyPresence:
      'Neither a reference nor an overflow check is in this file; shown is where the node ran. Click goes there.',
    noOverflow: 'No overflow',
    heightGrade: 'Colour and bars: grade. Click goes there.',
    loading: 'Looking in all steps and ranks…',
    failed: 'The other steps and ranks could not be read.',
    nothing: 'not compared',
    worstOf: (shown: string, total: string) => `The ${shown} worst of ${total} ranks`,
    showAll: (total: string) => `Show all ${total} ranks`,
    summary: (places: string, worst: string) => `${places} places, worst ${worst}`,
  },

  table: {
    columns: 'Columns',
    columnsHint: 'Choose which columns are shown',
    columnsOf: (shown: string, total: string) => `Columns ${shown}/${total}`,
    allColumns: 'Show all',
    exact: 'All digits',
    exactHint: 'Show every digit of every number',
    copy: 'Copy the table as TSV: the columns and rows as shown, with all digits',
    csv: 'CSV',
    csvHint: 'Download all columns of this table as CSV, with all digits',
    executionOrder: 'Order of execution',
    executionOrderHint: 'End the sorting',
    sortHint: 'Click sorts: largest first, smallest first, order of execution',
    unmatched: (count: string) =>
      count === '1' ? '1 parameter on one side only' : `${count} parameters on one side only`,
    rows: (count: string) => (count === '1' ? '1 parameter' : `${count} parameters`),
    actions: 'The table',
    xlsx: 'Excel',
    xlsxHint: 'Download the documented table of this node as an Excel workbook',
    hitsXlsx: 'Download the values of all results as an Excel workbook',
    hitsCsv: 'Download the results as CSV',
    hitsBusy: (count: string) => `${count} results read…`,
    hitsFailed: 'The results could not be read.',
  },
};
