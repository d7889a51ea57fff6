import type { Texts } from '../en';

export const noticesZh: Texts['notices'] = {
  exposed:
    '其他机器可以访问此 TensorBoard，任何能访问的人都可以查看这些文件并手动匹配节点。' +
    '使用 --graph_ascend_readonly 启动后只能查看。',
  understood: '知道了',
  coloursLate: '其他着色方式仍在计算中，完成后即可在此选择。',
  coloursFailed: (why) => `无法使用其他着色方式：${why}`,
  convert: '导入此文件',
  converting: '正在导入…',
  convertHint: '将在旁边生成新文件并保留已有匹配，原文件不会改变。',
};
