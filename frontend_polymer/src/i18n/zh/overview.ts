import type { Texts } from '../en';

export const overviewZh: Texts['overview'] = {
  label: '全部 step 和 rank 的总览',
  heatMap: '各 step 和 rank 的最差精度等级',
  heatMapOverflow: '各 step 和 rank 的最高溢出等级',
  heatMapPlain: 'Step 与 rank',
  enterHint: '单击单元格，或用方向键选择后按 Enter，打开对应的图。',
  worst: (step, rank) => `打开最差的图：step ${step}，rank ${rank}`,
  first: (step, rank) => `打开首个出错的图：step ${step}，rank ${rank}`,
  cell: (step, rank) => `Step ${step}，rank ${rank}`,
  nodes: '节点数',
  counts: '各图计数',
  totals: '全部图',
  unmatchedDebug: '未匹配（调试侧）',
  unmatchedReference: '未匹配（标杆侧）',
  overflow: (level) => `溢出：${level}`,
  oneSided: '仅调试侧存在',
  missing: '该文件中没有',
  failed: (reason) => `构图失败：${reason}`,
  graphs: (count) => `${count} 张图`,
};
