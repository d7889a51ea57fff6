import type { Texts } from './en';

export const shellZh: Texts['shell'] = {
  copyLink: '复制当前视图的链接',
  linkCopied: '链接已复制。能访问此 TensorBoard 的人都可以用它打开当前视图。',
  linkShortened: '链接已复制。展开的内容过多，链接只包含可见部分。',
  linkFailed: '浏览器不允许在此复制；地址栏中是同一个链接。',
  view: '视图',
  foldLayers: '将重复的层折叠为一行',
  bothSides: '显示两侧',
  onlyDebug: '只显示调试侧',
  onlyReference: '只显示标杆侧',
  savePng: '保存为 PNG 图片',
  saveSvg: '保存为 SVG 图片',
  saved: (name) => `已保存为 ${name}`,
  saveFailed: (why) => `无法生成图片：${why}`,
  imageTitle: (file, step, rank) => `${file} · step ${step} · rank ${rank}`,
  imageMicroStep: (micro) => `MicroStep ${micro}`,

  reload: '重新加载',
  news: {
    changed: (file) => `${file} 在加载之后发生了变化，当前显示的是变化之前的内容。`,
    gone: (file) => `${file} 已不在日志目录下，当前显示的是之前加载的内容。`,
    broken: (file) => `${file} 已无法读取，当前显示的是之前加载的内容；重新加载可查看原因。`,
  },
  separator: '；',
  notThere: (what) => `地址与此文件不符：${what}。`,
  unmet: {
    place: (wanted) => `文件中没有 step 和 rank ${wanted}，已显示最接近的`,
    microStep: (wanted) => `没有 MicroStep ${wanted}，已显示全部`,
    node: (wanted) => `没有名为 ${wanted} 的节点`,
    look: () => '展开状态属于另一个模型',
    malformed: (wanted) => `“${wanted}”无法识别`,
  },
  otherFile: (file) => `显示 ${file}`,
};
