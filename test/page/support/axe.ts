import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { z } from 'zod';
import type { SeenPage } from './browser.ts';

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const results = z.object({
  violations: z.array(
    z.object({ id: z.string(), impact: z.string().nullable(), nodes: z.array(z.object({ html: z.string() })) }),
  ),
});

/** axe-core finds nothing serious in what is shown now. */
export async function assertAccessible({ page }: SeenPage, where: string): Promise<void> {
  // By the debugger's way: the page's policy lets in no script of ours.
  await page.evaluate(source);
  const found = results.parse(await page.evaluate('axe.run(document, { resultTypes: ["violations"] })'));
  const serious = found.violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  const words = serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join('\n  ')}`);
  assert.deepEqual(words, [], where);
}
