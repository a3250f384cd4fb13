import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { DriverClient } from '../support/client.ts';
import { assertNothingLeft, DriverProcess } from '../support/driver.ts';
import { Scratch } from '../support/scratch.ts';
import { situations } from './situations.ts';

/** Kubernetes puts its own words before ours, and shows the whole in a table. */
const longestCharacters = 200;

const page = readFileSync(fileURLToPath(new URL('../../docs/troubleshooting.md', import.meta.url)), 'utf8');

/** The messages that the page quotes; what stands in angle brackets is different each time. */
const quoted = [...page.matchAll(/^```text\n(.*?)^```$/gms)].flatMap(([, block = '']) => block.trim().split('\n'));

function patternOf(quote: string): RegExp {
  const parts = quote.split(/<[^>]+>/).map((text) => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  return new RegExp(`^${parts.join('.+')}$`, 's');
}

describe('docs/troubleshooting.md', () => {
  const scratch = new Scratch('messages');
  const produced: string[] = [];
  const halfScratch = new Scratch('messages-half');
  const drivers: DriverProcess[] = [];
  const clients: DriverClient[] = [];

  before(async () => {
    const start = async (where: Scratch, secondPool: string) => {
      const config = `defaultPool: default\npools:\n  default: {}\n  ${secondPool}\n`;
      const driver = await DriverProcess.start(where, {
        config,
        environment: { HOLDFAST_KUBELET_DIR: scratch.join('kubelet') },
      });
      drivers.push(driver);
      clients.push(driver.connect());
    };
    await start(scratch, `plain: { directory: ${scratch.join('plain')} }`);
    await start(halfScratch, 'broken: { directory: /srv/no-such-disk/pool }');
  });
  after(async () => {
    for (const client of clients) client.close();
    for (const driver of drivers) await driver.stop();
    try {
      for (const where of [scratch, halfScratch]) assertNothingLeft(where);
    } finally {
      for (const where of [scratch, halfScratch]) where[Symbol.dispose]();
    }
  });

  for (const [name, provoke] of Object.entries(situations)) {
    test(`${name}: a short message, and the page has it`, async () => {
      const [client, half] = clients;
      assert.ok(client !== undefined && half !== undefined);
      const message = await provoke({ scratch, client, half }).then(
        () => assert.fail('nothing was refused'),
        (error: unknown) => (error instanceof Error ? error.message : assert.fail('no Error')),
      );
      produced.push(message);
      assert.ok(message.length <= longestCharacters, `${message.length} characters: ${message}`);
      const quotes = quoted.filter((quote) => patternOf(quote).test(message));
      assert.equal(quotes.length, 1, `${message}\nis quoted as: ${quotes.join(' | ') || 'nothing'}`);
    });
  }

  test('what it quotes is what is said', () => {
    const unsaid = quoted.filter((quote) => !produced.some((message) => patternOf(quote).test(message)));
    assert.deepEqual(unsaid, []);
  });
});
