/** What a PromQL expression speaks of: metrics, and the labels that it expects of them. */
export interface Mentioned {
  readonly metric: string;
  readonly labels: readonly string[];
}

const keywords: ReadonlySet<string> = new Set(['and', 'or', 'unless', 'bool', 'offset']);
const labelLists = /\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g;

/**
 * The metrics of an expression, each with the labels of its matchers, and the labels of `by`, `on` and the like. This is no
 * parser: whether the expression is one at all, promtool says.
 */
export function mentionedIn(expression: string): { readonly metrics: Mentioned[]; readonly listed: string[] } {
  const bare = expression.replaceAll(/"[^"]*"/g, '""').replaceAll(/\[[^\]]*\]/g, '');
  const listed = [...bare.matchAll(labelLists)].flatMap(([, list = '']) =>
    list.split(',').map((label) => label.trim()),
  );
  const metrics = [...bare.replaceAll(labelLists, '').matchAll(/([a-zA-Z_:][\w:]*)\s*(?:\{([^}]*)\}|(\()|)/g)].flatMap(
    ([, metric = '', matchers = '', call]) =>
      call === '(' || keywords.has(metric)
        ? []
        : [{ metric, labels: [...matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']) => label) }],
  );
  return { metrics, listed: listed.filter((label) => label !== '') };
}
