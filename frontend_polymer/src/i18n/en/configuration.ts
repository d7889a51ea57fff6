export const configurationEn = {
  title: 'Configurations of both runs',
  outcomes: { pass: 'May be compared', warning: 'Look first', error: 'Do not compare yet' },
  said: {
    pass: 'Nothing that was collected speaks against comparing the runs.',
    warning: 'Look at what differs before you trust the comparison.',
    error:
      'The runs were set up differently. Clear these differences first: what follows may be nothing but their consequence.',
  },
  alike: (parts: string) => `Alike: ${parts}.`,
  unknown: (parts: string) => `Cannot be told, because no two files hold it: ${parts}.`,
  parts: {
    env: 'environment',
    pip: 'packages',
    hyperparameters: 'options',
    dataset: 'data',
    weights: 'weights',
    random: 'random calls',
  },
  part: 'Part',
  name: 'Name',
  levels: { error: 'Error', warning: 'Warning' },
  absent: 'not there',
  all: (count: string) => `Show all ${count}`,
  more: (count: string) =>
    `${count} more differences are not shown here; msprobe-build config compare writes them all.`,
};
