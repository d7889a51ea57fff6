// Which rule made a merged value, and which ranks differ in it, in Chinese: the reasons of
// msprobe_builder/merge and the words of its disagreements. What is not known stays as it was.

const REASONS: Readonly<Record<string, string>> = {
  'a reduction over the ranks takes it in': '各 rank 的归约以它为输入',
  'each rank looks up its own words, and their sum is the whole':
    '每个 rank 只查找自己的词，其总和即为整体',
  'its memory was not written yet': '其内存尚未写入',
  'a weight that all ranks hold is updated alike': '各 rank 共有的权重以相同方式更新',
  "a gradient of what all ranks hold went through something of each rank's own":
    '各 rank 共有之物的梯度经过了每个 rank 自己的数据',
  'it is the gradient of a shard': '它是分片的梯度',
  'of the gradient of what all ranks hold each rank adds up its own share':
    '对各 rank 共有之物的梯度，每个 rank 只累加自己的份额',
  'each rank sums over its own part of what was broadcast':
    '每个 rank 只对广播内容中自己的部分求和',
  "the forward call took in something of each rank's own":
    '其前向调用的输入含有每个 rank 自己的数据',
  'its call took in something unknown': '其调用的输入含有未知内容',
  'its call took in what all ranks hold alike, and factors that differ':
    '其调用的输入在各 rank 上相同，系数却不同',
  'each rank takes a slice of its own': '每个 rank 取自己的切片',
  'ranks count from other numbers, but the same ones':
    '各 rank 从不同的数开始计数，所计的数却有重叠',
  "its call took in something of each rank's own": '其调用的输入含有每个 rank 自己的数据',
  "its call took in shards and something of each rank's own":
    '其调用的输入含有分片以及每个 rank 自己的数据',
  'its call took in partial results': '其调用的输入是部分结果',
  'its call took in what all ranks hold alike': '其调用的输入在各 rank 上相同',
  'the function gathers the rows before it multiplies them': '该函数先收集各行再相乘',
  'both factors are cut along what is summed over': '两个因子都沿求和的维度切分',
  'the indices of its sum say what becomes of each dimension': '求和的下标说明了每个维度的去向',
  'its call reduces a shard along one dimension': '其调用沿一个维度归约分片',
  'its call put shards together itself': '其调用自行拼合了分片',
  'its call took in shards': '其调用的输入是分片',
  'a single number is no part of anything': '单个数不是任何张量的一部分',
  'each rank adds up its own part of the gradient': '每个 rank 只累加自己那部分梯度',
  'it was gathered or reduced over the ranks': '它已在各 rank 之间收集或归约',
  'it was reduced before it was recorded': '它在记录之前已被归约',
  'it was scattered over the ranks': '它已分发到各 rank',
  'its module works on shards': '其模块处理的是分片',
  'no call tells of it, and the ranks agree': '没有调用说明其来历，而各 rank 一致',
  'no call tells of it, and the ranks differ': '没有调用说明其来历，而各 rank 不同',
  'ranks with other tokens agree in it': '持有其他 token 的各 rank 在此一致',
  'ranks with other tokens differ in it': '持有其他 token 的各 rank 在此不同',
  'ranks with other tokens have the same weights': '持有其他 token 的各 rank 权重相同',
  'the function talks to the other ranks itself': '该函数自行与其他 rank 通信',
  'the layer gathers or scatters the rows': '该层收集或分发各行',
  'the other side has it in this shape, whole': '另一侧完整持有它，形状相同',
  'the ranks differ in it as in shards of its shape': '各 rank 在此不同，与同形状的分片一样',
  'tensors of its shape are cut so': '同形状的张量都如此切分',
  'a later call takes in the sum of it': '后面的调用以其总和为输入',
  'each rank counts its own tokens': '每个 rank 统计自己的 token',
  'each rank takes memory for its own tokens': '每个 rank 为自己的 token 分配内存',
  'it is cut by the numbers of tokens of each expert and rank':
    '它按每个专家和 rank 的 token 数切分',
  'several ranks hold the same part': '多个 rank 持有相同的部分',
  'each data-parallel rank holds a part of it': '每个数据并行 rank 持有它的一部分',
  'it has the whole sequence, of which the ranks exchanged their heads':
    '它含有整个序列，各 rank 之间交换了头',
  "it has all heads of the rank's part of the sequence again": '它又含有该 rank 那段序列的所有头',
};

const WITH_NAMES: readonly (readonly [RegExp, (...parts: string[]) => string])[] = [
  [/^(\S+) holds it so$/, (name) => `${name} 如此持有它`],
  [/^(\S+) takes in and puts out so$/, (name) => `${name} 的输入输出如此`],
  [
    /^it is a distributed tensor placed (.+) over the data-parallel ranks$/,
    (placed) => `它是在数据并行 rank 之间按 ${placed} 放置的分布式张量`,
  ],
  [/^it is a distributed tensor placed (.+)$/, (placed) => `它是按 ${placed} 放置的分布式张量`],
  [
    /^the other side has it whole, with (\d+) instead of (\d+)$/,
    (whole, own) => `另一侧完整持有它，该维度为 ${whole} 而非 ${own}`,
  ],
  [
    /^it was divided by (\d+), as the loss of each rank is the mean of its own tokens$/,
    (count) => `它已除以 ${count}，因为每个 rank 的损失是自己那些 token 的均值`,
  ],
];

function reason(text: string): string | undefined {
  if (Object.hasOwn(REASONS, text)) return REASONS[text];
  for (const [pattern, chinese] of WITH_NAMES) {
    const found = pattern.exec(text);
    if (found) return chinese(...found.slice(1));
  }
  return undefined;
}

/** Why a value was merged so; as it is where any of it is unknown. */
export function reasonZh(text: string): string {
  const at = text.lastIndexOf(', and it was divided by ');
  const parts = at < 0 ? [text] : [text.slice(0, at), text.slice(at + ', and '.length)];
  const chinese = parts.map(reason);
  return chinese.every((part) => part !== undefined) ? chinese.join('，并且') : text;
}

const VALUES = '(max \\S+, min \\S+, mean \\S+, norm [^\\s,]+)';
const SHARE = new RegExp(
  `^the part of rank (\\d+) is not what the reference has there(?: \\((.+)\\))?: ${VALUES}$`,
);
const HAS = new RegExp(
  `^(the stage of )?rank (\\d+) has ${VALUES}(?:, (its elements differ))?(?:, rank (\\d+) is off)?$`,
);
const NAMES = { max: '最大值', min: '最小值', mean: '均值', norm: '范数' } as const;

function values(text: string): string {
  return text.replaceAll(
    /(max|min|mean|norm) /g,
    (_, name: keyof typeof NAMES) => `${NAMES[name]} `,
  );
}

/** What a rank has that differs; as it is where any of it is unknown. */
export function apartZh(text: string): string {
  const share = SHARE.exec(text);
  if (share) {
    const times = share[2]?.replace(/^(\S+) times$/, '$1 倍');
    const note = times === 'the same elements in another order' ? '元素相同、次序不同' : times;
    return `rank ${share[1]} 的部分与标杆此处不同${note ? `（${note}）` : ''}：${values(share[3]!)}`;
  }
  const has = HAS.exec(text);
  if (!has) return text;
  const [, stage, rank, own, differ, suspect] = has;
  return (
    `${stage ? `rank ${rank} 所在阶段` : `rank ${rank} `}为 ${values(own!)}` +
    `${differ ? '，元素不同' : ''}${suspect === undefined ? '' : `，rank ${suspect} 有误`}`
  );
}
