// What a build notes beside a pair of tensors, in Chinese.

/** Why a pair of tensors was compared as it was, or was not; of a closed set as well. */
const NOTES: Readonly<Record<string, string>> = {
  'unwritten: nobody has written to this memory; what it holds differs by chance':
    '未写入：没有调用写过这块内存，其中的内容因偶然而异',
  'order: the elements may be ordered in several ways; this is the way that agrees best':
    '次序：元素可能有多种排列，这里采用最吻合的一种',
};

/** Why a pair was not compared: the kind of reason, then what the builder found. */
const KINDS: Readonly<Record<string, string>> = {
  missing: '缺失',
  unsaved: '未保存',
  denied: '无权读取',
  refused: '拒绝',
  unreadable: '不可读',
  shape: '形状',
  unmerged: '未合并',
};

const FILE = '(.{1,300}?)';

/** What was found, behind the side it was found on. */
const FOUND: readonly (readonly [RegExp, string])[] = [
  ['the dump has no dump_tensor_data', 'dump 中没有 dump_tensor_data'],
  ['dump\\.json names no file', 'dump.json 没有给出文件名'],
  [`${FILE} may not be read`, '没有读取 $1 的权限'],
  [`${FILE} cannot be opened`, '无法打开 $1'],
  [`${FILE} is neither \\.pt nor \\.npy`, '$1 既不是 .pt 也不是 .npy'],
  [`${FILE} is no plain file name`, '$1 不是单纯的文件名'],
  [`${FILE} is a link out of dump_tensor_data`, '$1 是指向 dump_tensor_data 之外的链接'],
  [`${FILE} is no regular file`, '$1 不是普通文件'],
  [`${FILE} is damaged or holds more than a tensor`, '$1 已损坏，或不只含一个张量'],
  [`${FILE} is damaged: its checksum is wrong`, '$1 已损坏：校验和有误'],
  [
    `${FILE} is compressed inside, as torch\\.save writes no file`,
    '$1 的内容经过压缩，torch.save 不会写出这样的文件',
  ],
  [`${FILE} holds no tensor`, '$1 不含张量'],
  [`${FILE} holds no dense tensor`, '$1 不含稠密张量'],
  [`${FILE} claims more elements than it holds`, '$1 声称的元素多于其实际所含'],
  [`elements of type ${FILE} are no numbers`, '类型为 $1 的元素不是数值'],
  [`the parts ${FILE} do not fit together`, '各部分 $1 无法拼合'],
  ['(\\[[\\d, ]*\\]) and (\\[[\\d, ]*\\])', '$1 与 $2'],
  ['not all ranks have it', '并非所有 rank 都有它'],
  ['how the parts are cut is not known', '不知道各部分如何切分'],
  ['partial sums whose total was not recorded: unknown', '部分和的总和未被采集：未知'],
  ['depends on the rank and is not reduced: unknown', '因 rank 而异且未归约：未知'],
  ['each data-parallel rank holds a part of it', '每个数据并行 rank 持有其一部分'],
  [
    'share of a weight that several pipeline stages hold; their sum was not recorded',
    '多个流水线阶段共有的权重的一份；其总和未被采集',
  ],
  [
    'checksum unknown: those of parts say nothing of the whole',
    '校验和未知：各部分的校验和不能说明整体',
  ],
  ['the ranks have other checksums', '各 rank 的校验和不同'],
].map(([english, chinese]) => [new RegExp(`^${english}$`), chinese!] as const);

const WHY = /^(missing|unsaved|denied|refused|unreadable|shape|unmerged): (?:(npu|bench), )?(.*)$/;

/** The note beside a pair of tensors in Chinese; as it is where it is unknown. */
export function notedZh(note: string): string {
  if (Object.hasOwn(NOTES, note)) return NOTES[note]!;
  const why = WHY.exec(note);
  if (!why) return note;
  const [, kind, side, reason] = why;
  const found = FOUND.find(([english]) => english.test(reason!));
  // What a library says of a file stays as it says it.
  const told = found ? reason!.replace(...found) : reason!;
  const where = side ? `${side === 'npu' ? '本次运行' : '标杆'}，` : '';
  return `${KINDS[kind!]}：${where}${told}`;
}
