// What a verdict says of sums over ranks and passes, in Chinese; see told.ts.

import { DIFFERENCE, NAME, difference, told, type Told } from './told-words';

export const OF_SUMS: readonly Told[] = [
  told(
    `${NAME} ${DIFFERENCE}, and no recorded call has made it: it is what passes and ranks have added up, or what an optimizer keeps\\.`,
    (name, how) =>
      `${name} ${difference(how)}，且没有已记录的调用产生它：它是各次反向与各 rank 累加的结果，或优化器保存的状态。`,
  ),
  told(
    'Ranks add up gradients: it follows from rank (\\d+)\\.',
    (rank) => `各 rank 的梯度会相加：它由 rank ${rank} 引起。`,
  ),
  told(
    'Ranks add up gradients: look at rank (\\d+) first\\.',
    (rank) => `各 rank 的梯度会相加：请先查看 rank ${rank}。`,
  ),
  told(
    `Its parameters were gathered in ${NAME}, where they were wrong\\.`,
    (name) => `其参数在 ${name} 中收集而成，在那里已经出错。`,
  ),
  told(
    'This run makes (\\d+) micro-steps?, the reference (\\d+)\\.',
    (own, theirs) => `本次运行有 ${own} 次前向反向，标杆有 ${theirs} 次。`,
  ),
];
