// Chinese has no spaces: what is searched for becomes pairs of signs, as the index holds them.
// scripts/docs_site.py makes the same of the pages.
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  const query = message?.query?.replace(/[\u4e00-\u9fff]{2,}/g, (run) =>
    ` ${[...run].slice(1).map((sign, at) => run[at] + sign).join(' ')} `,
  );
  post.call(this, query === undefined ? message : { ...message, query }, ...rest);
};
