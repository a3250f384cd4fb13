import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { volumeIdFor } from '../../src/volume/id.ts';
import { holdfast } from '../support/command.ts';
import { DriverProcess, environmentFor } from '../support/driver.ts';
import { inject } from '../support/injection.ts';
import { Scratch } from '../support/scratch.ts';

describe('a disk that fails just after a directory was moved', () => {
  for (const what of ['adopt', 'release'] as const) {
    test(`${what}: all is where it was, and the same command works`, async () => {
      using scratch = new Scratch('release');
      const options = { config: `pools:\n  plain: { kind: directory, path: ${scratch.join('pool')} }\n` };
      await using driver = await DriverProcess.start(scratch, options);
      const environment = environmentFor(scratch, options);
      const path = scratch.join('beside');
      mkdirSync(path);
      writeFileSync(join(path, 'table'), 'rows');
      const claim = ['--pool', 'plain', '--claim', 'shop/data', '--class', 'plain', '--retain', '--size', '1Gi'];
      const adopt = () => holdfast(['adopt', path, ...claim], environment);
      const id = volumeIdFor('node-1', 'plain', 'adopted.shop.data');
      if (what === 'release') assert.equal((await adopt()).code, 0);
      const act = () => (what === 'adopt' ? adopt() : holdfast(['release', id], environment));
      {
        await using _failing = await inject(driver.pid, 'syncfs:error=EIO');
        const refused = await act();
        assert.equal(refused.code, 1, refused.stdout);
      }
      const done = await act();
      assert.deepEqual([done.code, done.stderr], [0, '']);
      const now = what === 'adopt' ? scratch.join('pool', 'volumes', id, 'data') : path;
      assert.equal(readFileSync(join(now, 'table'), 'utf8'), 'rows');
      assert.equal(existsSync(scratch.join('pool', 'handovers', `${id}.json`)), false);
    });
  }
});
