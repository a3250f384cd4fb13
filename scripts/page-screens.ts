import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { TestBrowser } from '../test/page/support/browser.ts';
import { crowdNames, PageScene } from '../test/page/support/scene.ts';
import { buildPage } from './build.ts';
import { Usage } from './options.ts';

/** Pictures of each view of the page, for docs/page.md: simulated nodes at a real controller, in Debian's Chromium. */
const nodes = 24;
const volumesEach = 12;
const output = fileURLToPath(new URL('../docs/images', import.meta.url));

new Usage('Draws each view of the page into docs/images/page-*.png:\nnpm run screens:page').read({});
await buildPage(fileURLToPath(new URL('../dist/page', import.meta.url)));
mkdirSync(output, { recursive: true });
await using scene = await PageScene.start([...crowdNames(nodes), 'worker-099']);
scene.startCrowd(nodes, volumesEach);
await using browser = await TestBrowser.start();

const rights = ['restore', 'purge', 'cancel', 'forget'] as const;
const file = (name: string) => `${output}/page-${name}.png`;

async function open(query: string, look: Parameters<TestBrowser['open']>[0]) {
  const seen = await browser.open(look);
  await seen.page.goto(scene.proxy.address(scene.token('alice', rights), query));
  return seen.page;
}

const wide = { width: 1280, height: 800 };
const page = await open('', wide);
await page.getByText(`${nodes * volumesEach} volumes`).waitFor();
await page.screenshot({ path: file('overview') });
for (const view of ['nodes', 'pools', 'volumes', 'snapshots', 'trash', 'moves', 'disks']) {
  await page.getByRole('link', { name: `${view[0]?.toUpperCase()}${view.slice(1)}`, exact: true }).click();
  await page.getByRole('row').nth(4).waitFor();
  if (view === 'volumes') {
    await page.getByRole('row').nth(3).click();
    await page.getByText('postgres (4711)').waitFor();
  }
  if (view === 'trash') await page.getByRole('button', { name: 'Bring back …' }).first().click();
  await page.screenshot({ path: file(view) });
  if (view === 'trash') await page.keyboard.press('Escape');
}
const dark = await open('', { ...wide, dark: true });
await dark.getByText(`${nodes * volumesEach} volumes`).waitFor();
await dark.screenshot({ path: file('dark') });
const phone = await open('?view=volumes', { width: 360, height: 740 });
await phone.getByRole('row').nth(4).waitFor();
await phone.screenshot({ path: file('phone') });
console.log(`drawn: ${output}/page-*.png`);
