import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const project = fileURLToPath(new URL('../..', import.meta.url));

/** What a demo may leave, by the directory that it names in its second line. */
function leftOf(directory: string): string[] {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
  const loops = readdirSync('/sys/block').flatMap((name) => {
    try {
      return readFileSync(`/sys/block/${name}/loop/backing_file`, 'utf8').trim();
    } catch {
      return [];
    }
  });
  const files = readdirSync('/var/tmp').map((name) => `/var/tmp/${name}`);
  return [...mounts, ...loops, ...files].filter((each) => each.includes(directory));
}

// As `npm run demo | head -5` does.
test('a demo whose reader goes away in the middle leaves nothing behind', { timeout: 240_000 }, async () => {
  const demo = spawn(process.execPath, ['scripts/demo.ts'], { cwd: project, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for await (const chunk of demo.stdout) {
    text += chunk;
    if (/ok publish/.test(text)) break;
  }
  const [directory = ''] = /\/var\/tmp\/holdfast-demo-\w+/.exec(text) ?? [];
  assert.notEqual(directory, '', text);
  assert.notDeepEqual(leftOf(directory), []);
  demo.stdout.destroy();
  demo.stderr.resume();
  const [code] = await once(demo, 'exit');
  assert.equal(code, 130);
  assert.deepEqual(leftOf(directory), []);
});
