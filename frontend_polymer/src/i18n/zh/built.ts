// What a build had to say of the dumps that it read and compared, in Chinese, each sentence as
// msprobe_builder writes it.

import { names } from './told-words';

/** Sentences that hold nothing else. */
const WHOLE: Readonly<Record<string, string>> = {
  'Calls are named as parents without an entry of their own in construct.json; each was placed below the nearest recorded module on its path.':
    '有些调用被当作上级，却在 construct.json 中没有自己的条目；已分别放到其路径上最近的已记录模块之下。',
  'Calls are recorded in dump.json but not in construct.json; each was placed below the nearest recorded module on its path, else below the root.':
    '有些调用记录在 dump.json 中，却不在 construct.json 中；已分别放到其路径上最近的已记录模块之下，没有则放到根节点之下。',
  'Calls of a later forward pass were recorded inside a backward module whose hook never fired; they were moved to where the earlier passes stand.':
    '后一次前向传播的调用被记录在钩子未触发的反向模块之内；已移到前几次传播所在的位置。',
  'Calls are recorded as being inside themselves; each cycle was cut at its first call, which was placed below the root.':
    '有些调用被记录为位于自身之内；每个环已在其第一个调用处断开，该调用放到根节点之下。',
  'Parameter gradients belong to modules without a recorded backward call; they were placed below the nearest enclosing backward call, else below the root.':
    '有些参数梯度所属的模块没有记录反向调用；已放到最近的外层反向调用之下，没有则放到根节点之下。',
  'Calls are in the hierarchy but have no record in dump.json; they are shown without tensors.':
    '有些调用在层级中，却在 dump.json 中没有记录；显示时不含张量。',
  'Read from a database of another tool: hierarchy and errors were made again of what it holds, statistics as it rounded them; its matches were kept.':
    '读自其他工具的数据库：层级与误差由其内容重新得出，统计量保持其舍入，匹配保留。',
  'The file was a comparison of real data, of which it holds no tensors; the statistics were compared instead.':
    '该文件是真实数据的比对，但不含张量；改为比对统计量。',
  'Chosen matches are for steps or ranks that are not compared; they were left out.':
    '有些指定的匹配属于未比对的 step 或 rank；未采用。',
  'Tensors have a statistic in dump.json of one side only; it was not compared, and the grade is that of the others.':
    '有些张量的某个统计量只在一侧的 dump.json 中；该统计量未比对，级别由其余统计量得出。',
  'The recorder of one side adds the gradients of parameters up, that of the other tells what each pass brings: those of later passes have no partner, and the verdict judges none.':
    '一侧的采集器累加参数的梯度，另一侧记录每次传播带来的内容：之后各次传播的梯度没有配对，结论不据此判断。',
  'Tensor files are missing; these tensors were not compared.': '缺少张量文件；这些张量未比对。',
  'Tensor files have names that lead out of dump_tensor_data or are no tensors; they were not opened.':
    '有些张量文件的名称指向 dump_tensor_data 之外，或不是张量；未打开。',
  'Tensor files are damaged or hold no numbers; they were not compared.':
    '有些张量文件已损坏或不含数值；未比对。',
  'Tensors in the files differ in shape; they were not compared.': '文件中的张量形状不同；未比对。',
  'Tensors of many ranks make no whole that is known; they were not compared.':
    '多个 rank 的张量无法确定如何拼成整体；未比对。',
  'Records in dump.json are no objects, appear twice or have the name of the root; they were left out.':
    'dump.json 中有些记录不是对象、重复出现或与根节点同名；未采用。',
  'Calls appear twice in construct.json; the last entry counts.':
    '有些调用在 construct.json 中出现两次；以最后一个条目为准。',
  'Keys appear twice in one object of dump.json or stack.json; the last one counts.':
    'dump.json 或 stack.json 的同一对象中有键重复；以最后一个为准。',
  'Statistics in dump.json are no numbers; texts of numbers were read as such, all others count as not recorded.':
    'dump.json 中有些统计量不是数值；数值文本按数值读取，其余视为未记录。',
  'dump.json holds no record; the hierarchy is shown without tensors.':
    'dump.json 中没有记录；层级显示时不含张量。',
  'Values in dump.json are no lists or objects, or nest too deeply; left out.':
    'dump.json 中有些值不是列表或对象，或嵌套过深；未采用。',
  'Entries of stack.json have an unknown form; they were left out.':
    'stack.json 中有些条目形式未知；未采用。',
  'Entries beside the rank or step directories are no dumps and were left out.':
    'rank 或 step 目录旁的有些条目不是 dump；未采用。',
  'Calls overflow; the subject is the first of them.': '有些调用溢出；所列为其中第一个。',
  'What a rank received is not what the other rank sent.':
    '某个 rank 收到的内容与对方 rank 发送的不同。',
  'Communication calls have no counterpart on a rank that should take part.':
    '有些通信调用在应参与的 rank 上没有对应的调用。',
  'Communication calls involve ranks that are not in the dump.':
    '有些通信调用涉及 dump 中没有的 rank。',
  'Communication calls do not say which rank they address.':
    '有些通信调用没有说明对方是哪个 rank。',
};

/** Sentences with steps, ranks and numbers in them. */
const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [
    /^Steps and ranks are missing in (npu_path|bench_path) and were left out: (.{1,300})\.$/,
    '$1 中缺少一些 step 与 rank，未比对：$2。',
  ],
  [
    /^noise_path lacks (.{1,300}); the noise of these is not known\.$/,
    'noise_path 中缺少 $1；其噪声未知。',
  ],
  [
    /^An expert got the tokens of (\d+) data-parallel replicas on this side and of (\d+) on the other: only weights must agree; compare runs with equal numbers of replicas to compare what experts made of their tokens\.$/,
    '这一侧的一个专家得到 $1 个数据并行副本的 token，另一侧为 $2 个：只有权重必须一致；要比较专家对 token 的计算，请比对副本数相同的运行。',
  ],
  [
    /^--device (\S+) computes errors of single elements, which dumps of task (\S+) do not hold; it changed nothing\.$/,
    '--device $1 计算逐元素的误差，而 task 为 $2 的 dump 不含元素；没有任何影响。',
  ],
];

/** Such a sentence in Chinese, nothing where it is unknown. */
export function builtZh(message: string): string | undefined {
  if (Object.hasOwn(WHOLE, message)) return WHOLE[message];
  for (const [pattern, chinese] of PATTERNS) {
    if (pattern.test(message))
      return message.replace(pattern, (...found: string[]) =>
        chinese.replaceAll(/\$(\d)/g, (_, place: string) => names(found[Number(place)]!)),
      );
  }
  return undefined;
}
