// What a build had to say of ranks that it merged, in Chinese: sentences of
// msprobe_builder/merge/detect.py and its neighbours. What is not known stays as it was written.

import { builtZh } from './built';

type Told = readonly [pattern: RegExp, chinese: (...parts: string[]) => string];

const GROUP = '(\\[\\d+(?:, \\d+)*(?:, …)?\\])';

function listed(text: string): string {
  return text.replaceAll(', ', '、');
}

/** Why a layout was found to be so, behind each size. */
const REASONS: readonly Told[] = [
  [/^what is left$/, () => '其余'],
  [/^no layer is of a parallel class$/, () => '没有任何层属于并行类'],
  [
    new RegExp(`^collectives of parallel layers over ranks ${GROUP}$`),
    (group) => `并行层的集合通信在 rank ${listed(group)} 之间进行`,
  ],
  [
    new RegExp(`^exchanges around experts over ranks ${GROUP}$`),
    (group) => `专家前后的交换在 rank ${listed(group)} 之间进行`,
  ],
  [
    new RegExp(`^attention gathers or exchanges over ranks ${GROUP}$`),
    (group) => `注意力在 rank ${listed(group)} 之间收集或交换`,
  ],
  [
    /^sends within attention between rank 0 and (\d+(?:, \d+)*)$/,
    (peers) => `注意力内部在 rank 0 与 ${listed(peers)} 之间发送`,
  ],
  [/^sends between ranks 0 and (\d+)$/, (peer) => `rank 0 与 ${peer} 之间有发送`],
  [
    /^words enter the model on the first (\d+) ranks only$/,
    (count) => `只有前 ${count} 个 rank 上有词输入模型`,
  ],
  [/^words enter the model on every rank$/, () => '每个 rank 上都有词输入模型'],
  [/^model chunks in names of modules$/, () => '模块名称中有模型块的编号'],
  [
    /^ranks of one tensor-parallel group exchange tokens$/,
    () => '同一张量并行组的各 rank 互相交换 token',
  ],
  [
    /^every rank of a stage holds other parts of parallel layers$/,
    () => '同一阶段的每个 rank 持有并行层的不同部分',
  ],
  [
    /^rank (\d+) holds the same parts of parallel layers as rank 0$/,
    (rank) => `rank ${rank} 与 rank 0 持有并行层的相同部分`,
  ],
  [
    /^rank (\d+) holds (\d+) of (\d+) parts of parallel layers as rank 0$/,
    (rank, some, all) => `rank ${rank} 的并行层中，${all} 个部分里有 ${some} 个与 rank 0 相同`,
  ],
];

const OTHER = new RegExp(
  `^(collectives of parallel layers run|attention gathers or exchanges) over ranks ${GROUP}, which the declared order does not give$`,
);

/** What stands behind the sizes. */
const ENDS: readonly Told[] = [
  [
    /^nothing tells dp from cp for sure: declare cp if there is any$/,
    () => '没有记录能确定地区分 dp 与 cp：如果有 cp，请声明',
  ],
  [
    OTHER,
    (what, group) =>
      `${what.startsWith('attention') ? '注意力的收集或交换' : '并行层的集合通信'}在 rank ${listed(group)} 之间进行，所声明的 order 给不出这样的组`,
  ],
  [
    /^correct what was declared, or leave it to be found$/,
    () => '请更正所声明的内容，或留待自动识别',
  ],
];

function one(text: string, known: readonly Told[]): string | undefined {
  for (const [pattern, chinese] of known) {
    const found = pattern.exec(text);
    if (found) return chinese(...found.slice(1));
  }
  return undefined;
}

function reason(text: string): string | undefined {
  if (text === 'declared') return '已声明';
  const against = /^declared, though the dump tells (\d+): (.*)$/.exec(text);
  if (!against) return one(text, REASONS);
  const told = one(against[2]!, REASONS);
  return told && `已声明，但 dump 表明为 ${against[1]}：${told}`;
}

/** The sizes that were found: `tp 2 (why), pp 1`. */
function sizes(text: string): string | undefined {
  const result: string[] = [];
  const size = /(\w+ \d+)(?: \(([^()]+)\))?(?:, |$)/y;
  while (size.lastIndex < text.length) {
    const found = size.exec(text);
    if (!found) return undefined;
    const why = found[2] === undefined ? '' : reason(found[2]);
    if (why === undefined) return undefined;
    result.push(why ? `${found[1]}（${why}）` : found[1]!);
  }
  return result.join('、');
}

function layout(text: string): string | undefined {
  const found = /^(\d+) ranks? (?:was|were) found to be ([^;]+)((?:; [^;]+)*)\.$/.exec(text);
  if (!found) return undefined;
  const ends = found[3]!.split('; ').slice(1);
  const parts = [sizes(found[2]!), ...ends.map((end) => one(end, ENDS))];
  if (parts.some((part) => part === undefined)) return undefined;
  return `识别出 ${found[1]} 个 rank 的切分为 ${parts.join('；')}。`;
}

const OTHERS: readonly Told[] = [
  [
    /^Tensors that the ranks of a stage should hold alike differ between them\.$/,
    () => '同一阶段的各 rank 本应持有相同的张量，实际却不同。',
  ],
  [
    /^Tensors that ranks (\d+(?:, \d+)*) should hold alike differ between them\.$/,
    (some) => `rank ${listed(some)} 本应持有相同的张量，实际却不同。`,
  ],
  [
    /^Calls or tensors exist on some tensor-parallel ranks only; they were left out of the merge\.$/,
    () => '有些调用或张量只存在于部分张量并行 rank 上，合并时未计入。',
  ],
  [
    /^Reductions inside layers run over other ranks than the declared tensor-parallel group; check tp, pp and order of parallel_merge\.$/,
    () => '层内归约所在的 rank 与声明的张量并行组不同；请检查 parallel_merge 的 tp、pp 与 order。',
  ],
  [
    /^Reductions inside layers run over ranks that have no group in the declared layout; check tp, pp and order of parallel_merge\.$/,
    () => '层内归约所在的 rank 在声明的切分中不成组；请检查 parallel_merge 的 tp、pp 与 order。',
  ],
  [
    /^Ranks send each other tensors outside of all modules, as the stages of a pipeline do, and pp is 1; check pp of parallel_merge\.$/,
    () =>
      '各 rank 在所有模块之外像流水线阶段那样互相发送张量，而 pp 为 1；请检查 parallel_merge 的 pp。',
  ],
  [
    /^By the declared layout ranks (\[.+\]) share experts out, but the dump records exchanges over (\[.+\]); check ep, etp and order of parallel_merge\.$/,
    (declared, recorded) =>
      `按声明的切分，rank ${listed(declared)} 分担专家，但 dump 记录的交换在 ${listed(recorded)} 之间；请检查 parallel_merge 的 ep、etp 与 order。`,
  ],
  [
    /^With (\d+) replicas on the npu side and (\d+) on the bench side some that are compared saw other samples: weights and structure must agree, activations need not\.$/,
    (own, theirs) =>
      `调试侧有 ${own} 个副本，标杆侧有 ${theirs} 个，所比较的副本中有些看到的样本不同：权重与结构必须一致，激活值不必一致。`,
  ],
];

/** A note from the build in Chinese; as it is where any of it is unknown. */
export function reportedZh(message: string): string {
  return layout(message) ?? one(message, OTHERS) ?? builtZh(message) ?? message;
}
