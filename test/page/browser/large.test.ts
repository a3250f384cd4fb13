import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { buildPage } from '../../../scripts/build.ts';
import { eventually } from '../../support/eventually.ts';
import { assertAccessible } from '../support/axe.ts';
import { TestBrowser } from '../support/browser.ts';
import { crowdNames, PageScene } from '../support/scene.ts';

await buildPage(fileURLToPath(new URL('../../../dist/page', import.meta.url)));

const nodes = 1000;
const volumesEach = 10;

function residentMebibytes(pid: number): number {
  const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Math.round(Number(line) / 1024);
}

/** Runs in the page: notes when all volumes are on the screen, in milliseconds since the browser began to open the page. */
const noteFirstView = (words: string) => `
  globalThis.firstViewMs = new Promise((resolve) => {
    const observer = new MutationObserver(() => {
      if (document.querySelector('output')?.textContent !== '${words}') return;
      observer.disconnect();
      // The second frame begins after the first one was drawn.
      requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now())));
    });
    observer.observe(document, { childList: true, subtree: true, characterData: true });
  });
`;

describe('a thousand nodes with ten thousand volumes on the page', () => {
  test('all are shown, few rows exist, a search is at once, and nothing is kept when nobody looks', async (t) => {
    await using scene = await PageScene.start(crowdNames(nodes));
    scene.startCrowd(nodes, volumesEach);
    await eventually(() => {
      const linked = scene.controller.log().filter(({ msg }) => msg === 'inventory complete').length;
      assert.ok(linked >= nodes, `${linked} nodes`);
    }, 240_000);
    const asked = () => scene.controller.log().filter(({ view }) => view === '/v1/stream').length;
    const before = residentMebibytes(scene.controller.pid);
    await using browser = await TestBrowser.start();
    const first = await browser.open();
    await first.page.goto(scene.proxy.address(scene.token('alice'), '?view=volumes'));
    const count = (page: typeof first.page) => page.locator('output');
    await count(first.page).filter({ hasText: '10,000' }).waitFor({ timeout: 120_000 });
    const during = residentMebibytes(scene.controller.pid);

    // The board is there: a second page shows all of it at once.
    const second = await browser.open();
    await second.page.addInitScript({ content: noteFirstView('10,000') });
    await second.page.goto(scene.proxy.address(scene.token('bob'), '?view=volumes'));
    await count(second.page).filter({ hasText: '10,000' }).waitFor();
    const { page } = second;
    const shownMs = Math.round(Number(await page.evaluate('firstViewMs')));
    assert.ok((await page.getByRole('row').count()) < 80);
    await page.getByRole('row').nth(2).focus();
    await page.keyboard.press('End');
    await eventually(async () => {
      assert.equal(await page.getByRole('row').last().getAttribute('aria-rowindex'), '10001');
    });
    const searchedMs = performance.now();
    await page.getByRole('searchbox').fill('worker-777');
    await count(page).filter({ hasText: '10 of 10,000' }).waitFor();
    const foundMs = Math.round(performance.now() - searchedMs);
    for (const [view, number] of [
      ['Overview', '1,000 nodes'],
      ['Pools', '1,000'],
      ['Nodes', '1,000'],
    ] as const) {
      await page.getByRole('link', { name: view, exact: true }).click();
      await page.getByText(number).first().waitFor();
      await assertAccessible(second, view);
    }
    await page.getByRole('link', { name: 'Disks', exact: true }).click();
    await count(page).filter({ hasText: '2,334' }).waitFor({ timeout: 120_000 });
    assert.deepEqual([...first.complaints, ...second.complaints], []);
    await first.page.context().close();
    await page.context().close();
    await eventually(() => assert.equal(asked(), 2));
    t.diagnostic(`first view of ${nodes * volumesEach} volumes: ${shownMs} ms; a search: ${foundMs} ms`);
    t.diagnostic(`memory of the controller: ${before} MiB before, ${during} MiB while somebody looks`);
    console.log(
      `# first view ${shownMs} ms, search ${foundMs} ms, controller ${before} MiB at rest, ${during} MiB with a page`,
    );
  });
});
