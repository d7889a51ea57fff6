// What is said behind a verdict, in Chinese: what to record next, and what running a call again shows.

import { told, type Told } from './told-words';

/** What `msprobe-operators check` has found of a suspect. */
export const OF_CHECKS: readonly Told[] = [
  told(
    'Run again alone it is wrong as well(?:, by (more than )?([-+.,\\w]+) times what rounding explains)?: the operator itself is wrong here\\.',
    (more, times) =>
      `单独重新运行时同样有误${times ? `，为舍入所能解释的 ${times} 倍${more ? '以上' : ''}` : ''}：此处算子本身有误。`,
  ),
  told(
    'Run again alone it is right: the operator itself is not to blame, but what it was given or told\\.',
    () => '单独重新运行时正确：算子本身没有问题，问题在于它的输入或参数。',
  ),
];

/** Remarks on what to record next. */
export const OF_NEXT_DUMP: readonly Told[] = [
  told(
    "Let the optimizer's step stand between start\\(\\) and stop\\(\\): its calls are recorded then, too\\.",
    () => '请让优化器的 step 位于 start() 与 stop() 之间，这样它的调用也会被采集。',
  ),
  told(
    'What goes wrong first lies before or in the first of these steps that differs\\.',
    () => '最先出错之处在这些 step 中第一个不一致的 step 之前或之内。',
  ),
];
