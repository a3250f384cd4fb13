import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type BuildOptions, build } from 'esbuild';
import { mendUsing } from '../../scripts/using.ts';

/** Each block fails in its first round, and the loop goes on. */
const source = `
  export async function rounds(log) {
    for (let round = 1; round <= 3; round++) {
      try {
        using one = { [Symbol.dispose]: () => log.push('one ' + round) };
        if (round === 1) throw new Error('the first round');
        log.push('done ' + round);
      } catch (error) {
        log.push('caught ' + round + ': ' + error.message);
      }
      try {
        await using two = { [Symbol.asyncDispose]: async () => log.push('two ' + round) };
        if (round === 2) throw undefined;
        log.push('done also ' + round);
      } catch (error) {
        log.push('caught also ' + round + ': ' + error);
      }
    }
    try {
      using last = { [Symbol.dispose]() { throw new Error('disposed'); } };
      throw new Error('first');
    } catch (error) {
      log.push(error.name, error.error.message, error.suppressed.message);
    }
  }
`;
const options: BuildOptions = {
  ...{ stdin: { contents: source, loader: 'ts' }, bundle: true, write: false, format: 'esm', target: 'node22' },
  ...{ platform: 'node', minifyWhitespace: true, minifySyntax: true },
};

async function run(text: string): Promise<string[]> {
  const log: string[] = [];
  const { rounds } = (await import(`data:text/javascript,${encodeURIComponent(text)}`)) as {
    readonly rounds: (log: string[]) => Promise<void>;
  };
  await rounds(log);
  return log;
}

test('a block with using in a bundle forgets the error of an earlier round', async () => {
  const { outputFiles } = await build(options);
  const bundle = outputFiles?.[0]?.text ?? assert.fail();
  const right = [
    ...['one 1', 'caught 1: the first round', 'done also 1', 'two 1'],
    ...['done 2', 'one 2', 'two 2', 'caught also 2: undefined'],
    ...['done 3', 'one 3', 'done also 3', 'two 3'],
    ...['SuppressedError', 'disposed', 'first'],
  ];
  assert.deepEqual(await run(mendUsing(bundle)), right);
  // Once esbuild does it right, scripts/using.ts can go.
  assert.ok((await run(bundle)).includes('caught 2: the first round'));
});

test('a block of another form is not passed over', () => {
  assert.throws(() => mendUsing('try{}finally{__callDispose(_stack,_e,_h)}'), /1 blocks with using have a form/);
});
