// What is said of calls that a dump leaves out, and of runs that end early, in Chinese.

import { DIFFERENCE, NAME, difference, side, told, type Told } from './told-words';

/** What is said of a suspect. */
export const OF_LEFT_OUT: readonly Told[] = [
  told(
    `${NAME} ${DIFFERENCE}; the calls that made it were not recorded\\.`,
    (name, how) => `${name} ${difference(how)}；产生它的调用未被记录。`,
  ),
  told(
    `${NAME} ${DIFFERENCE}; the calls on the way back that made it were not recorded\\.`,
    (name, how) => `${name} ${difference(how)}；产生它的反向调用未被记录。`,
  ),
  told(
    `${NAME} ${DIFFERENCE}; it is another weight, or made by calls that were not recorded\\.`,
    (name, how) => `${name} ${difference(how)}：它是另一个权重，或由未被记录的调用产生。`,
  ),
  told(
    `${NAME} ${DIFFERENCE}; it is other data, or made by calls that were not recorded\\.`,
    (name, how) => `${name} ${difference(how)}：它是不同的数据，或由未被记录的调用产生。`,
  ),
  told(
    `What (it|its forward call) is given was not recorded, ${NAME} ${DIFFERENCE}\\.`,
    (whose, name, how) =>
      `${whose === 'it' ? '它' : '其前向调用'}的输入未被记录，${name} ${difference(how)}。`,
  ),
  told(
    'So would samples that were given in another order\\.',
    () => '样本次序不同也可解释这一点。',
  ),
];

/** What is said where nobody is accused. */
export const OF_EARLY_ENDS: readonly Told[] = [
  told(
    'What a dump leaves out of the run was not judged\\.',
    () => '有一侧的 dump 未记录的部分未作判断。',
  ),
  told('Step (\\d+), rank (\\d+):', (step, rank) => `step ${step}、rank ${rank}：`),
  told(
    `(This run|The reference) ends before ${NAME} of (?:the reference|this run): ([\\d,]+) nodes that follow there were not judged\\.`,
    (which, name, count) => {
      const other = which === 'This run' ? 'the reference' : 'this run';
      return `${side(which)}在${side(other)}的 ${name} 之前结束：其后 ${count} 个节点未作判断。`;
    },
  ),
  told(
    `(This run|The reference) calls ${NAME}, which (the reference|this run) does not: ([\\d,]+) nodes were not judged\\.`,
    (which, name, other, count) =>
      `${side(which)}调用了 ${name}，${side(other)}没有：${count} 个节点未作判断。`,
  ),
];
