// What a build notes beside a pair of tensors, in Chinese.

/** Why a pair of tensors was compared as it was, or was not; of a closed set as well. */
const NOTES: Readonly<Record<string, string>> = {
  'unwritten: nobody has written to this memory; what it holds differs by chance':
    '未写入：没有调用写过这块内存，其中的内容因偶然而异',
  'order: the elements may be ordered in several ways; this is the way that agrees best':
    '次序：元素可能有多种排列，这里采用最吻合的一种',
};

/** The note beside a pair of tensors in Chinese; as it is where it is unknown. */
export function notedZh(note: string): string {
  return Object.hasOwn(NOTES, note) ? NOTES[note]! : note;
}
