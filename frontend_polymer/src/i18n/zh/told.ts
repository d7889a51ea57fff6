// What a build says of its verdict, in Chinese. The file holds English sentences of a closed set,
// msprobe_builder/verdict; they are recognised one after the other from the beginning. Where one is
// not known, everything stays as it was written: half a sentence in each language helps nobody.

import {
  DIFFERENCE,
  NAME,
  NAMES,
  VALUES,
  difference,
  names,
  ofRank,
  ranks,
  side,
  told,
  values,
  type Told,
} from './told-words';
import { OF_CHECKS, OF_NEXT_DUMP } from './told-afterwards';
import { OF_EARLY_ENDS, OF_LEFT_OUT } from './told-left-out';
import { OF_PRECISION } from './told-precision';
import { OF_SUMS } from './told-sums';

/** No verdict is as long; what is longer is not looked at. */
const LONGEST = 4000;

/** What is said of an optimizer that goes through other parameters than the reference's. */
const OF_PARTS = told(
  "Behind the last backward pass the rank goes through other parts of parameters than the reference: ([\\d,]+) of their tensors agree with one of the reference's, whatever its turn(?:; ([\\d,]+) are slices and were not compared)?\\.",
  (alike, slices) =>
    `最后一次反向之后，该 rank 处理的参数部分与标杆不同：其中 ${alike} 个张量不论次序与标杆的某个张量一致` +
    `${slices ? `；${slices} 个只是参数的切片，未作比较` : ''}。`,
);

/** In the order in which they are tried: what is more of a sentence stands first. */
const SENTENCES: readonly Told[] = [
  ...OF_LEFT_OUT,
  told(
    `The inputs agree, ${NAME} ${DIFFERENCE}\\.`,
    (name, how) => `输入一致，${name} ${difference(how)}。`,
  ),
  told(
    `Nobody can compare (\\S{1,500}?(?: and \\S{1,500}?){0,5}), which merging could not tell; ${NAME} ${DIFFERENCE}\\.`,
    (inputs, name, how) =>
      `${inputs.replaceAll(' and ', '、')} 合并时无法得知，因此无法比较；${name} ${difference(how)}。`,
  ),
  told(
    `Nobody can compare (\\S{1,500}?(?: and \\S{1,500}?){0,5}), of which one side has no statistics; ${NAME} ${DIFFERENCE}\\.`,
    (inputs, name, how) =>
      `${inputs.replaceAll(' and ', '、')} 只有一侧有统计值，因此无法比较；${name} ${difference(how)}。`,
  ),
  told(
    `The size of (\\S{1,500}?(?: of \\S{1,500}?)?) is ([\\d,]+), in the reference ([\\d,]+); ${NAME} ${DIFFERENCE}\\.`,
    (given, own, theirs, name, how) =>
      `${given.replace(/^(\S+) of (\S+)$/, '$2 的 $1')} 有 ${own} 个元素，标杆为 ${theirs} 个；${name} ${difference(how)}。`,
  ),
  told(
    `The inputs agree as far as statistics tell, ${NAME} ${DIFFERENCE}: values of an input that stand at other places would explain it\\.`,
    (name, how) =>
      `就统计值而言输入一致，${name} ${difference(how)}：某个输入的元素位置不同即可解释这一点。`,
  ),
  told(
    'Its output has the statistics of the reference, which are the same in any order\\.',
    () => '它的输出与标杆的统计值相同，而统计值与元素的次序无关。',
  ),
  told(
    `Behind it ${NAME} of ${NAME} ${DIFFERENCE}: values that stand at other places would explain it\\.`,
    (name, at, how) => `其后 ${at} 的 ${name} ${difference(how)}：元素位置不同即可解释这一点。`,
  ),
  told(
    'The inputs agree and so does the output as far as its statistics tell\\.',
    () => '输入一致，就统计值而言输出也一致。',
  ),
  told(
    `Its output looks the same, but behind it ${NAME} of ${NAME} ${DIFFERENCE}\\.`,
    (name, at, how) => `它的输出看起来相同，但其后 ${at} 的 ${name} ${difference(how)}。`,
  ),
  told(
    `The inputs agree to the last bit, the output has the same statistics but other bits; behind it ${NAME} of ${NAME} ${DIFFERENCE}\\.`,
    (name, at, how) =>
      `输入逐位一致，输出的统计量相同但各位不同；其后 ${at} 的 ${name} ${difference(how)}。`,
  ),
  told(
    `Behind it ${NAME} of ${NAME} ${DIFFERENCE}, although everything before it agrees\\.`,
    (name, at, how) => `其后 ${at} 的 ${name} ${difference(how)}，而在此之前全部一致。`,
  ),
  told(
    `Something inside it that was not recorded: ${NAME} of ${NAME} ${DIFFERENCE}\\.`,
    (name, at, how) => `问题在其内部未采集的部分：${at} 的 ${name} ${difference(how)}。`,
  ),
  told('This run lacks the call\\.', () => '本次运行缺少这次调用。'),
  told('The reference has no such call\\.', () => '标杆没有这次调用。'),
  told(
    '(This run|The reference) does not make the call; nothing behind it was recorded that would show it\\.',
    (who) => `${side(who)}没有这次调用；其后没有采集到能体现其影响的数据。`,
  ),
  told(
    '(This run|The reference) does not make the call, and none in its place; what comes behind it agrees within rounding, or cannot be compared\\.',
    (who) => `${side(who)}没有这次调用，也没有替代它的调用；其后在舍入范围内一致，或无法比较。`,
  ),
  told(
    '(This run|The reference) does not make the call, whose effect no statistic tells\\.',
    (who) => `${side(who)}没有这次调用；任何统计值都不能体现其影响。`,
  ),
  told(
    'What it is given was made by calls that nobody recorded; there its values may have got into another order\\.',
    () => '它的输入来自未采集的调用，其中的数值可能在那里已换了位置。',
  ),
  told(
    'It casts to a type coarser than any that (this run|the reference) uses\\. What that rounds averages out in the statistics behind it\\.',
    (who) =>
      `它转换到了比${side(who)}所用的任何类型都更粗的类型；由此产生的舍入在其后的统计值中相互抵消。`,
  ),
  told('Ranks that should be alike are not\\.', () => '本应一致的 rank 并不一致。'),
  told(
    `${NAME} is not what follows from the rank's own gradients\\.`,
    (name) => `${name} 与该 rank 自己的梯度不符。`,
  ),
  told(
    `The reference takes a norm of no gradient like ${NAME}\\.`,
    (name) => `标杆没有对与 ${name} 相同的梯度求范数。`,
  ),
  told(
    `${NAME} is not the sum of what all ranks put in\\.`,
    (name) => `${name} 不是所有 rank 输入之和。`,
  ),
  told(
    'Rank (\\d+) has ([-+.\\w]+) instead of ([-+.\\w]+)\\.',
    (rank, own, due) => `rank ${rank} 的值为 ${own}，应为 ${due}。`,
  ),
  told(
    `${NAME} was drawn otherwise from inputs that agree: seed both runs alike\\. What is made of it cannot be compared\\.`,
    (name) =>
      `输入一致，但 ${name} 的随机数不同：请为两次运行设置相同的种子。由它得到的结果无法比较。`,
  ),
  told(
    `${NAME} needs a gradient on one side only: it is frozen on the other\\.`,
    (name) => `${name} 只在一侧需要梯度：在另一侧被冻结。`,
  ),
  told(
    `${NAME} needs a gradient on one side only: a branch is cut off from training\\.`,
    (name) => `${name} 只在一侧需要梯度：有一条分支没有参与训练。`,
  ),
  told(
    `${NAME} ${DIFFERENCE} and comes from outside: other data was given\\.`,
    (name, how) => `${name} ${difference(how)}，且来自外部：输入的数据不同。`,
  ),
  told(
    `${NAME} ${DIFFERENCE}, and no recorded call has made it: another buffer or constant was given\\.`,
    (name, how) => `${name} ${difference(how)}，且没有已记录的调用产生它：所用的缓冲区或常量不同。`,
  ),
  told(
    `The fault is in the loss or its labels, behind ${NAME}, which a dump of modules alone does not show: ${NAME} of ${NAME} ${DIFFERENCE}\\.`,
    (last, name, at, how) =>
      `问题在 ${last} 之后的损失函数或其标签中（仅含模块的 dump 不记录它们）：${at} 的 ${name} ${difference(how)}。`,
  ),
  told(
    `The fault is in calls behind ${NAME} and outside of all modules, which a dump of modules alone does not show: ${NAME} of ${NAME} ${DIFFERENCE}\\.`,
    (last, name, at, how) =>
      `问题在 ${last} 之后、所有模块之外的调用中（仅含模块的 dump 不记录它们）：${at} 的 ${name} ${difference(how)}。`,
  ),
  told(
    `${NAME} ${DIFFERENCE} and comes from outside: the data was given that the reference has in micro-step (\\d+)\\.`,
    (name, how, step) =>
      `${name} ${difference(how)}，且来自外部：输入的是标杆在 micro-step ${step} 中的数据。`,
  ),
  told(
    `${NAME} ${DIFFERENCE}: another weight was given\\.`,
    (name, how) => `${name} ${difference(how)}：所用的权重不同。`,
  ),
  told(
    `${NAME} ${DIFFERENCE}, and most weights differ, too\\.`,
    (name, how) => `${name} ${difference(how)}，大多数权重也不同。`,
  ),
  told(
    `${NAME} ${DIFFERENCE}, although what it came from agrees: another tensor is given\\.`,
    (name, how) => `${name} ${difference(how)}，而它的来源一致：传入的是另一个张量。`,
  ),
  told(
    `In the reference ${NAMES} (together take|takes) its place\\.`,
    (theirs, how) => `标杆中与之对应的是 ${names(theirs)}${how === 'takes' ? '' : '，合为一体'}。`,
  ),
  told(
    `It is judged as one with ${NAMES}, which do what ${NAMES} does in the reference\\.`,
    (own, theirs) =>
      `它与 ${names(own)} 作为一个整体判断，它们完成标杆中 ${names(theirs)} 的计算。`,
  ),
  told(
    `Argument ${NAME} is (\\S+ on ranks? \\d+(?:, \\d+)*(?: and \\S+ on ranks? \\d+(?:, \\d+)*)*)\\.`,
    (name, own) =>
      `参数 ${name} 在各 rank 上不同：${own
        .split(' and ')
        .map((one) =>
          one.replace(
            /^(\S+) on ranks? (.*)$/,
            (_, value: string, on: string) => `rank ${ranks(on)} 为 ${value}`,
          ),
        )
        .join('，')}。`,
  ),
  told(
    'Argument (\\S{1,500}?) is (.{1,300}?), in the reference (.{1,300}?)\\.',
    (name, own, theirs) => `参数 ${name} 为 ${own}，标杆为 ${theirs}。`,
  ),
  told('No rounding explains that\\.', () => '舍入无法解释这一误差。'),
  told('By how much it is off checksums do not tell\\.', () => '校验和不能说明相差多少。'),
  told(
    "That is (more than )?([-+.,\\w]+) times what rounding and the run's own noise explain\\.",
    (more, times) => `这是舍入与运行自身噪声所能解释的 ${times} 倍${more ? '以上' : ''}。`,
  ),
  told('([\\d,]+) later nodes? inherits? it\\.', (count) => `其后 ${count} 个节点继承了该误差。`),
  told(
    'The overflow check finds the origin of NaN or infinity here\\.',
    () => '溢出检测表明 NaN 或无穷值源于此处。',
  ),
  told(
    `In ${NAME} the part of rank (\\d+) is not what the reference has there(?: \\(([^)]{1,80})\\))?: ${VALUES}\\.`,
    (name, rank, note, shown) =>
      `${name} 中 rank ${rank} 的部分与标杆的相应部分不同${note ? `（${ofRank(note)}）` : ''}：${values(shown)}。`,
  ),
  told(
    `In ${NAME} (the stage of )?rank (\\d+) has ${VALUES}(, its elements differ)?(?:, rank (\\d+) is off)?\\.`,
    (name, stage, rank, shown, elements, off) =>
      `${name} 中 rank ${rank}${stage ? ' 所在的流水线阶段' : ''}的值为 ${values(shown)}` +
      `${elements ? '，其元素不同' : ''}${off ? `，rank ${off} 有偏差` : ''}。`,
  ),
  told(
    'It comes from rank (\\d+), where it was wrong before\\.',
    (rank) => `它来自 rank ${rank}，在那里此前就已出错。`,
  ),
  told(
    'Rank (\\d+) has sent it so, where it agrees within rounding\\.',
    (rank) => `它由 rank ${rank} 原样发来，在那里与参考一致（仅有舍入误差）。`,
  ),
  told(
    'What rank (\\d+) gives to it differs: look there first\\.',
    (rank) => `rank ${rank} 提供给它的数据有差异：请先查看那里。`,
  ),
  told('It follows from step (\\d+)\\.', (step) => `它由 step ${step} 引起。`),
  told(
    'It may follow from what was drawn in step (\\d+)\\.',
    (step) => `它可能由 step ${step} 中的随机数引起。`,
  ),
  told(
    'Where a gradient is next to nothing, an optimizer may make that of its rounding\\.',
    () => '梯度接近于零时，优化器可能由其舍入误差造成这一差异。',
  ),
  told(
    'The weights differ before the first step that was recorded: load the same weights, seed both runs alike, or record an earlier step\\.',
    () =>
      '权重在所记录的第一个 step 之前就已不同：请加载相同的权重、为两次运行设置相同的随机种子，或记录更早的 step。',
  ),
  told('Another such weight stands for all\\.', () => '同类的另一权重代表了它们全部。'),
  told('Most weights of step (\\d+) differ, too\\.', (step) => `step ${step} 的大多数权重也不同。`),
  told(
    'The step before agrees: look at what happened in between, such as the optimizer, its settings, clipping, or weights that were loaded\\.',
    () => '前一步一致：请查看两步之间发生了什么，例如优化器及其设置、梯度裁剪或加载的权重。',
  ),
  told(
    'Look at step (\\d+) first: calls of (\\S{1,500}) there are ([\\d,]+), in the reference ([\\d,]+)\\.',
    (step, module, own, theirs) =>
      `请先查看 step ${step}：其中 ${module} 被调用 ${own} 次，标杆为 ${theirs} 次。`,
  ),
  told(
    'Step (\\d+) does not agree for certain: look at its suspects first, then at what happened in between, such as the optimizer\\.',
    (step) =>
      `step ${step} 是否一致并不确定：请先查看其嫌疑对象，再查看两步之间发生了什么，例如优化器。`,
  ),
  told(
    'Only on ranks? (\\d+(?:, \\d+)*) of (\\d+)\\.',
    (some, all) => `仅出现在 rank ${ranks(some)} 上（共 ${all} 个）。`,
  ),
  told('On all (\\d+) ranks alike\\.', (all) => `在全部 ${all} 个 rank 上均如此。`),
  told(
    'It is given ([-+.\\w]+); the reference gives ([-+.\\w]+(?:, [-+.\\w]+)*) to the function\\.',
    (own, theirs) => `传入的是 ${own}；标杆传给该函数的是 ${names(theirs)}。`,
  ),
  told(
    'The rank never gives it ([-+.\\w]+(?:, [-+.\\w]+)*), as the reference does\\.',
    (lost) => `该 rank 从未像标杆那样传入 ${names(lost)}。`,
  ),
  told(
    `No update of the reference has ${NAME} like this, whose norm is ([-+.\\w]+)\\.`,
    (name, norm) => `标杆的更新中没有与此处的 ${name} 相同的张量，其范数为 ${norm}。`,
  ),
  told(
    'The rank never calls (\\w+(?:, \\w+)*) behind the last backward pass, as the reference does\\.',
    (lacking) => `最后一次反向之后，该 rank 从未像标杆那样调用 ${names(lacking)}。`,
  ),
  ...OF_CHECKS,
  OF_PARTS,
  ...OF_PRECISION,
  ...OF_SUMS,
];

/** Sentences that accuse nobody. */
const OTHERS: readonly Told[] = [
  OF_PARTS,
  told(
    'No fault beyond rounding in ([\\d,]+) nodes\\.',
    (count) => `${count} 个节点中没有超出舍入的误差。`,
  ),
  told(
    "Each rank takes norms of its own parameters: all ([\\d,]+) are of the reference's gradients, and ([\\d,]+) calls follow from them on every rank; first (\\S{1,500})\\.",
    (norms, calls, name) =>
      `每个 rank 对自己的参数求范数：全部 ${norms} 个范数都取自标杆所有的梯度，由其得出的 ${calls} 个调用在每个 rank 上均吻合；首个为 ${name}。`,
  ),
  told(
    'What other replicas add to the sum was not checked\\.',
    () => '其他副本加入总和的部分未作检查。',
  ),
  told(
    'Calls whose flags differ as the split of their layer explains: ([\\d,]+); first (\\S{1,500}), argument (\\S{1,500}) is (\\w+), in the reference (\\w+)\\.',
    (count, name, argument, own, theirs) =>
      `有 ${count} 个调用的标志不同，可由其层的切分解释；首个为 ${name}：参数 ${argument} 为 ${own}，标杆中为 ${theirs}。`,
  ),
  ...OF_PRECISION,
  told(
    'Nothing is wrong before (\\S{1,500}), which chose other (indices|signs of vectors) than the reference from inputs that agree within rounding; cannot tell behind it\\.',
    (name, chosen) =>
      `${name} 之前没有问题；它的输入在舍入范围内一致，却选出了与标杆不同的${chosen === 'indices' ? '索引' : '向量符号'}，其后无法判断。`,
  ),
  told('Cannot tell, because no call could be compared\\.', () => '无法判断：没有可比较的调用。'),
  told(
    'Cannot tell, because only ([\\d,]+) of ([\\d,]+) nodes could be judged; nothing is wrong with those\\.',
    (some, all) => `无法判断：${all} 个节点中只有 ${some} 个可以判断，它们没有问题。`,
  ),
  told(
    'Cannot tell, because the calls of the ranks contradict the layout that parallel_merge declares, as the warnings of the build say: correct it first\\.',
    () => '无法判断：各 rank 的调用与 parallel_merge 声明的切分矛盾，见构建的警告；请先更正切分。',
  ),
  told(
    'Cannot tell, because the dumps hold checksums alone, and calls that are given equal bits put out others as a habit, as on another device: record statistics\\.',
    () =>
      '无法判断：dump 只有校验和，而输入逐位相同的调用普遍给出不同的输出，例如在另一种设备上；请记录统计值。',
  ),
  told(
    'Cannot tell, because dumps of task structure hold no numbers\\.',
    () => '无法判断：task 为 structure 的 dump 不含数值。',
  ),
  told(
    '([\\d,]+) nodes have no partner in the reference\\.',
    (count) => `${count} 个节点在标杆中没有配对。`,
  ),
  ...OF_NEXT_DUMP,
  ...OF_EARLY_ENDS,
  told(
    'What differs here came from another rank or step\\.',
    () => '此处的差异来自其他 rank 或 step。',
  ),
];

/** Every sentence of a text in Chinese; nothing where one of them is unknown. */
function all(text: string, known: readonly Told[]): string | undefined {
  let at = 0;
  let result = '';
  while (at < text.length) {
    let next = '';
    for (const [pattern, chinese] of known) {
      pattern.lastIndex = at;
      const found = pattern.exec(text);
      if (!found) continue;
      next = chinese(...found.slice(1));
      at = pattern.lastIndex + 1; // and the space behind it
      break;
    }
    if (!next) return undefined;
    result += next;
  }
  return result || undefined;
}

const ACCUSATION =
  /^(Nothing certain; look first at )?(?:Step (\d+), rank (\d+): )?(.{1,1500}?)( of the reference)?(?: \(([^()]{1,300}:\d+)\))?: (?=[A-Z\d]|\S+ [a-z])/;

/** A suspect and what speaks against it. */
function accusation(text: string): string | undefined {
  const found = ACCUSATION.exec(text);
  if (!found) return undefined;
  const [head, doubt, step, rank, name, ofReference, source] = found;
  const evidence = all(text.slice(head.length), SENTENCES);
  if (!evidence) return undefined;
  const where = step === undefined ? '' : `step ${step}、rank ${rank}：`;
  const at = name!.replace(/^(.*→ )?[Ww]hat runs before (\S+)$/, '$1$2 之前执行的部分');
  return (
    `${doubt ? '尚不能确定，请先查看 ' : ''}${where}${ofReference ? '标杆的 ' : ''}${at}` +
    `${source ? `（${source}）` : ''}：${evidence}`
  );
}

/** A verdict or the evidence of a suspect in Chinese; as it is where any of it is unknown. */
export function toldZh(text: string): string {
  if (text.length > LONGEST) return text;
  return all(text, OTHERS) ?? all(text, SENTENCES) ?? accusation(text) ?? text;
}
