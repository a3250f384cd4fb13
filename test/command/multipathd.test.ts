import assert from 'node:assert/strict';
import { chmodSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { askMultipathd } from '../../src/command/multipathd.ts';
import { Scratch } from '../support/scratch.ts';

/** A program in the place of nsenter(1), which stands for multipathd. */
function answers(program: string, scratch: Scratch): Promise<string | undefined> {
  const path = scratch.join('into-host');
  writeFileSync(path, `#!/bin/sh\n${program}\n`);
  chmodSync(path, 0o755);
  return askMultipathd({ before: [path, '--'] }, ['add', 'map', 'x']);
}

describe('a command for multipathd', () => {
  test('is run in the namespaces of the host, and its words are the answer', async () => {
    using scratch = new Scratch('multipathd');
    assert.equal(await answers('echo "$@"', scratch), '-- multipathd add map x');
    assert.equal(await answers('echo ok', scratch), 'ok');
  });

  test('may be refused, with the exit code of newer versions too', async () => {
    using scratch = new Scratch('multipathd');
    assert.equal(await answers('echo blacklisted; echo fail; exit 1', scratch), 'blacklisted\nfail');
  });

  test('has no answer if the daemon hangs, or the program is missing or killed', async () => {
    using scratch = new Scratch('multipathd');
    assert.equal(await answers('echo timeout receiving packet; exit 1', scratch), undefined);
    assert.equal(await answers('echo error -104 receiving packet; exit 1', scratch), undefined);
    assert.equal(await answers('exit 127', scratch), undefined);
    assert.equal(await answers('echo ok; kill -9 $$', scratch), undefined);
    assert.equal(await askMultipathd({ before: [scratch.join('none')] }, ['show', 'daemon']), undefined);
  });
});
