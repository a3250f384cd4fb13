import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Locator, Page } from 'playwright-core';
import { buildPage } from '../../../scripts/build.ts';
import { LinkedNode, volumeOn } from '../../fleet/support/fleet.ts';
import { holdfast } from '../../support/command.ts';
import { eventually } from '../../support/eventually.ts';
import { TestVolume } from '../../support/life.ts';
import { assertAccessible } from '../support/axe.ts';
import { TestBrowser } from '../support/browser.ts';
import { PageScene } from '../support/scene.ts';

await buildPage(fileURLToPath(new URL('../../../dist/page', import.meta.url)));

const views = ['Overview', 'Nodes', 'Pools', 'Volumes', 'Snapshots', 'Trash', 'Moves', 'Disks'];
const [nodeA, nodeB, nodeC] = ['node-a', 'node-b', 'node-c'] as const;

const to = (page: Page, view: string) => page.getByRole('link', { name: view, exact: true }).click();
const rowWith = (page: Page, text: string): Locator => page.getByRole('row').filter({ hasText: text });

/** Three real drivers, with a volume each, one in the trash and a snapshot. */
async function fleetOfThree(scene: PageScene, held: AsyncDisposableStack) {
  const nodes: LinkedNode[] = [];
  for (const name of [nodeA, nodeB, nodeC]) {
    const pools = name === nodeA ? ['default', 'fast'] : ['default'];
    nodes.push(held.use(await LinkedNode.start(scene.api, name, [scene.controller], {}, pools)));
    await scene.controller.logged('inventory complete', { node: name });
  }
  using client = scene.controller.connect();
  const make = async (node: string, name: string, claim: string) => {
    const { volume } = await client.controller.CreateVolume({
      ...volumeOn(node, name),
      parameters: {
        undelete: '1h',
        'csi.storage.k8s.io/pvc/namespace': 'shop',
        'csi.storage.k8s.io/pvc/name': claim,
      },
    });
    return volume?.volume_id ?? '';
  };
  const remove = (volume_id: string) => client.controller.DeleteVolume({ volume_id });
  for (const [node, name, claim] of [
    [nodeA, 'pvc-a', 'orders'],
    [nodeB, 'pvc-b', 'carts'],
    [nodeC, 'pvc-c', 'search'],
  ] as const) {
    const id = await make(node, name, claim);
    if (node === nodeB) await client.controller.CreateSnapshot({ source_volume_id: id, name: 'before-upgrade' });
  }
  await remove(await make(nodeA, 'pvc-old', 'old-orders'));
  await remove(await make(nodeA, 'pvc-older', 'older-orders'));
  // A volume in use, whose move waits for its pod.
  const [a] = nodes;
  assert.ok(a);
  const inUse = new TestVolume(a.scratch, 'pvc-used');
  const usedId = await make(nodeA, inUse.name, 'in-use');
  using local = a.driver.connect();
  await inUse.stage(local, usedId);
  held.defer(async () => {
    using again = a.driver.connect();
    await inUse.unstage(again, usedId);
  });
  const moving = await holdfast(['move', usedId, '--to-pool', 'fast', '--json'], a.driver.environment);
  assert.equal(moving.code, 0, moving.stderr);
  return { nodes, make };
}

describe('the page of a fleet in a browser', () => {
  test('each view of three real nodes, in both colours and on a phone, keyboard and all; nothing is asked elsewhere', async () => {
    await using held = new AsyncDisposableStack();
    const scene = held.use(await PageScene.start([nodeA, nodeB, nodeC]));
    await fleetOfThree(scene, held);
    const browser = held.use(await TestBrowser.start());
    for (const look of [{}, { dark: true }, { width: 360, height: 740 }, { width: 3840, height: 2160 }]) {
      const seen = await browser.open(look);
      const { page } = seen;
      const token = scene.token('alice');
      await page.goto(scene.proxy.address(token));
      await page.getByText('live', { exact: true }).waitFor();
      // The token is out of the address at once.
      assert.ok(!page.url().includes(token) && !page.url().includes('#'));
      for (const view of views) {
        await to(page, view);
        await page.getByRole('heading', { level: 1, name: view }).waitFor({ state: 'attached' });
        const expected =
          { Snapshots: 'before-upgrade', Trash: 'shop/old-orders', Volumes: 'shop/carts', Moves: 'shop/in-use' }[
            view
          ] ?? nodeA;
        await rowWith(page, expected).first().waitFor();
        await assertAccessible(seen, `${view} ${JSON.stringify(look)}`);
        const wide = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
        assert.equal(wide, 0, `${view} is wider than ${JSON.stringify(look)}`);
      }
      await to(page, 'Volumes');
      await page.keyboard.press('/');
      await page.keyboard.type('carts');
      await eventually(async () => assert.equal(await page.getByRole('row').count(), 2));
      // It can be shared: the search is in the address, the secret is not.
      assert.match(page.url(), /\?view=volumes&q=carts$/);
      await page.getByRole('row').last().focus();
      await page.keyboard.press('Enter');
      await page.getByRole('complementary', { name: 'Details of shop/carts' }).waitFor();
      await page.getByText('Nothing holds it.').waitFor();
      await assertAccessible(seen, 'details');
      await page.keyboard.press('Escape');
      await page.getByRole('complementary').waitFor({ state: 'detached' });
      assert.deepEqual(seen.complaints, []);
      assert.deepEqual(
        seen.requests.filter((url) => !url.startsWith(`${scene.proxy.origin}/`) && !url.startsWith('data:')),
        [],
      );
      await page.context().close();
    }
  });

  test('changes: with the right they happen and are seen, without it they are not offered, and refused if asked', async () => {
    await using held = new AsyncDisposableStack();
    const scene = held.use(await PageScene.start([nodeA, nodeB, nodeC, 'node-gone']));
    await fleetOfThree(scene, held);
    const browser = held.use(await TestBrowser.start());
    const looker = await browser.open();
    await looker.page.goto(scene.proxy.address(scene.token('looker'), '?view=trash'));
    await rowWith(looker.page, 'shop/old-orders').waitFor();
    assert.equal(await looker.page.getByRole('button', { name: /Bring back|Purge/ }).count(), 0);
    await looker.page.getByText(/you need the Role holdfast-operator/).waitFor();
    await to(looker.page, 'Nodes');
    await rowWith(looker.page, 'node-gone').waitFor();
    assert.equal(await looker.page.getByRole('button', { name: /Forget/ }).count(), 0);

    const operator = await browser.open();
    const { page } = operator;
    await page.goto(
      scene.proxy.address(scene.token('operator', ['restore', 'purge', 'cancel', 'forget']), '?view=trash'),
    );
    const dialog = page.getByRole('dialog');
    await rowWith(page, 'shop/old-orders').getByRole('button', { name: 'Bring back …' }).click();
    await dialog.getByText(/again in pool default of node node-a, with its id, name and data/).waitFor();
    assert.match(
      (await dialog.locator('code').textContent()) ?? '',
      /^kubectl holdfast trash restore vol-\S+ --node node-a$/,
    );
    await assertAccessible(operator, 'dialog');
    // Changing one's mind changes nothing.
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await rowWith(page, 'shop/old-orders').getByRole('button', { name: 'Bring back …' }).click();
    await dialog.getByRole('button', { name: 'Bring back', exact: true }).click();
    await dialog.getByText('shop/old-orders is back in pool default.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    // Seen by the one who did it and by the other, without asking.
    await rowWith(page, 'shop/old-orders').waitFor({ state: 'detached' });
    await to(looker.page, 'Volumes');
    await rowWith(looker.page, 'shop/old-orders').waitFor();

    await rowWith(page, 'shop/older-orders').getByRole('button', { name: 'Purge …' }).click();
    await dialog.getByText(/removed for ever, and nobody can bring it back/).waitFor();
    await dialog.getByRole('button', { name: 'Purge for ever' }).click();
    await dialog.getByText('shop/older-orders is gone for ever.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    await page.getByText('The trash is empty.').waitFor();

    await to(looker.page, 'Moves');
    await rowWith(looker.page, 'shop/in-use').getByText('default → fast').waitFor();
    await rowWith(looker.page, 'shop/in-use').getByText('waiting', { exact: true }).waitFor();
    assert.equal(await looker.page.getByRole('button', { name: 'Cancel …' }).count(), 0);
    await to(page, 'Moves');
    await rowWith(page, 'shop/in-use').getByRole('button', { name: 'Cancel …' }).click();
    await dialog.getByText(/stays in pool default of node node-a, with all that was written to it/).waitFor();
    assert.match(
      (await dialog.locator('code').textContent()) ?? '',
      /^kubectl holdfast move cancel vol-\S+ --node node-a$/,
    );
    await dialog.getByRole('button', { name: 'Cancel the move' }).click();
    await dialog.getByText('shop/in-use stays in pool default.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    await rowWith(page, 'shop/in-use').getByText('cancelled', { exact: true }).waitFor();

    await to(page, 'Nodes');
    await rowWith(page, 'node-gone').getByRole('button', { name: 'Forget …' }).click();
    await dialog.getByText('kubectl holdfast forget-node node-gone').waitFor();
    await dialog.getByRole('button', { name: 'Forget the node' }).click();
    // The double has no such Node, and no volume of it.
    await dialog.getByText('Node node-gone is forgotten.', { exact: false }).waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    await rowWith(page, 'node-gone').waitFor({ state: 'detached' });

    // A right that is taken away while the page is open: refused, with the reason.
    await page.getByRole('link', { name: 'Volumes', exact: true }).click();
    using client = scene.controller.connect();
    const { entries } = await client.controller.ListVolumes({});
    const id = entries[0]?.volume?.volume_id ?? '';
    await client.controller.DeleteVolume({ volume_id: id });
    await to(page, 'Trash');
    await page.getByRole('button', { name: 'Purge …' }).first().click();
    scene.api.known.viewers.delete('operator delete:trash');
    await dialog.getByRole('button', { name: 'Purge for ever' }).click();
    await dialog.getByText(/operator may not change trash: RBAC lets it no "delete"/).waitFor();
    assert.deepEqual(looker.complaints, []);
  });

  test('a node goes and comes back, the server restarts, and a token ends, before the eyes of who looks', async () => {
    await using held = new AsyncDisposableStack();
    const scene = held.use(await PageScene.start([nodeA, nodeB, nodeC]));
    const { nodes } = await fleetOfThree(scene, held);
    const browser = held.use(await TestBrowser.start());
    const { page } = await browser.open();
    await page.goto(scene.proxy.address(scene.token('alice')));
    await page.getByRole('heading', { name: 'Nothing is wrong' }).waitFor();
    const [, b] = nodes;
    assert.ok(b);
    await b.driver.kill();
    await page.getByText(/^Node node-b has been away for/).waitFor();
    // What was known of it stays, and says that it is of a node that is away.
    await to(page, 'Volumes');
    assert.match((await rowWith(page, 'shop/carts').getAttribute('class')) ?? '', /\bdim\b/);
    await b.startDriver();
    await to(page, 'Overview');
    await page.getByRole('heading', { name: 'Nothing is wrong' }).waitFor();

    // It comes again by itself, so soon that the words are waited for before the server goes.
    const lost = page.getByText(/connection lost/).waitFor();
    await scene.restart();
    await lost;
    await to(page, 'Volumes');
    await rowWith(page, 'shop/carts').waitFor();
    await page.getByText('live', { exact: true }).waitFor();
    await eventually(async () => assert.equal(await page.getByRole('row').count(), 5));

    const short = await browser.open();
    await short.page.goto(scene.proxy.address(scene.token('bob', [], 6)));
    await short.page.getByText('live', { exact: true }).waitFor();
    await short.page.getByText('This page cannot show anything').waitFor();
    await short.page.getByText('kubectl holdfast ui', { exact: true }).waitFor();
    // A page that was loaded again has no token any more.
    await page.reload();
    await page.getByText('There is no secret in the address.').waitFor();
  });

  test('names that others chose are only text', async () => {
    await using held = new AsyncDisposableStack();
    const scene = held.use(await PageScene.start([nodeA]));
    held.use(await LinkedNode.start(scene.api, nodeA, [scene.controller]));
    await scene.controller.logged('inventory complete', { node: nodeA });
    using client = scene.controller.connect();
    const names = [
      '<script>document.title="x"</script><img src=x onerror=alert(1)>',
      `long-${'x'.repeat(120)}`,
      'right-to-left \u202egnp.exe',
      'שלום עולם',
      '"\'`{{7*7}}&lt;b&gt;',
    ];
    for (const name of names) await client.controller.CreateVolume(volumeOn(nodeA, name));
    const browser = held.use(await TestBrowser.start());
    for (const width of [360, 1280]) {
      const seen = await browser.open({ width });
      const { page } = seen;
      await page.goto(scene.proxy.address(scene.token('alice'), '?view=volumes'));
      await rowWith(page, '<script>document.title').waitFor();
      for (const name of names) {
        const shown = name.replace('\u202e', '\\u202e');
        await rowWith(page, shown).first().click();
        await page.getByRole('complementary').getByText(shown).first().waitFor();
        await page.keyboard.press('Escape');
      }
      assert.equal(await page.title(), 'Volumes · Holdfast');
      assert.equal(await page.locator('main img, main script').count(), 0);
      // In the address, too: what comes from there is text.
      await page.goto(
        scene.proxy.address(scene.token('alice'), '?view=volumes&q=%3Cscript%3E&open=%3Cimg%20src=x%3E&node=__proto__'),
      );
      await page.getByText('No volume fits the search.').waitFor();
      assert.deepEqual(seen.complaints, []);
      await page.context().close();
    }
  });
});
