import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { holdfast } from '../support/command.ts';

/** What bash offers when this is typed, and then the tabulator key. */
async function offered(typed: string): Promise<string[]> {
  const { code, stdout } = await holdfast(['completion', 'bash'], {});
  assert.equal(code, 0);
  const words = typed.split(' ');
  const ask = `COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _holdfast; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const text = execFileSync('bash', ['-c', `${stdout}\n${ask}`, 'bash', ...words], { encoding: 'utf8' });
  return text.split('\n').filter((line) => line !== '');
}

describe('holdfast completion', () => {
  for (const [typed, expected] of [
    ['holdfast vol', ['volumes']],
    ['holdfast trash ', ['restore', 'purge', '--json', '--help']],
    ['holdfast trash purge --', ['--json', '--yes', '--help']],
    ['holdfast export --reclaim-policy ', ['Retain', 'Delete']],
    ['holdfast export --storage-class ', []],
    ['holdfast export --json --r', ['--reclaim-policy']],
    ['holdfast completion ', ['bash', 'zsh', 'fish', '--help']],
    ['holdfast volumes shop/data --j', ['--json']],
  ] as const) {
    test(`bash: '${typed}'`, async () => assert.deepEqual(await offered(typed), expected));
  }

  test('bash: all commands, and none that nobody types', async () => {
    const all = await offered('holdfast ');
    for (const command of ['serve', 'pools', 'volumes', 'snapshots', 'trash', 'who', 'export', 'doctor', 'completion'])
      assert.ok(all.includes(command), command);
    assert.ok(!all.includes('look-at-pools'));
  });

  test('bash takes it by source, and complete(1) knows it', async () => {
    const { stdout } = await holdfast(['completion', 'bash'], {});
    const shown = execFileSync('bash', ['-c', `${stdout}\ncomplete -p holdfast`], { encoding: 'utf8' });
    assert.equal(shown, 'complete -o default -F _holdfast holdfast\n');
  });

  for (const [shell, line] of [
    ['zsh', /^#compdef holdfast\n[\s\S]*\ncompdef _holdfast holdfast\n$/],
    ['fish', /^complete -c holdfast -n '__fish_use_subcommand' -a volumes -d '/m],
  ] as const) {
    test(`${shell} gets a script with the same words`, async () => {
      const { code, stdout } = await holdfast(['completion', shell], {});
      assert.equal(code, 0);
      assert.match(stdout, line);
      assert.match(stdout, /Retain Delete/);
      assert.doesNotMatch(stdout, /look-at-pools/);
    });
  }
});
