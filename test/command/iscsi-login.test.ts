import assert from 'node:assert/strict';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { IscsiError, type IscsiRunner, iscsiLogin, iscsiLogout } from '../../src/command/iscsiadm.ts';
import { Scratch } from '../support/scratch.ts';

const session = { iface: 'ours', id: 7 };
const login = {
  iface: 'ours',
  iqn: 'iqn.2026-01.org.example:a',
  address: 'fd00::1',
  port: '3260',
  record: 'a = top secret\nb = c',
};

/** A program in the place of iscsiadm, in a mount namespace that ends with it: no machine has open-iscsi for this. */
function fakeRunner(scratch: Scratch, program: string, layout = 'mkdir -p /etc/iscsi/nodes/of-the-host'): IscsiRunner {
  const path = scratch.join('iscsiadm');
  writeFileSync(path, `#!/bin/sh\n${program}\n`);
  chmodSync(path, 0o755);
  const prepare = [
    'mount -t tmpfs none /usr/local/sbin && cp "$0" /usr/local/sbin/iscsiadm',
    `mount -t tmpfs none /etc && mount -t tmpfs none /var/lib && ${layout}`,
    'exec "$@"',
  ];
  return { before: ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', prepare.join('; '), path] };
}

describe('a login of open-iscsi', () => {
  test('reads its record in memory that no other program sees, and no argument has it', async () => {
    using scratch = new Scratch('iscsi');
    const seen = scratch.join('seen');
    const program = `{ echo "$*"; ls /etc/iscsi/nodes; stat -f -c %T /etc/iscsi/nodes; stat -c %a /etc/iscsi/nodes;
      f=/etc/iscsi/nodes/iqn.2026-01.org.example:a/fd00::1,3260; stat -c %a "$f"; cat "$f"; env; } >${seen}
      tr '\\0' ' ' </proc/$PPID/cmdline >${seen}.parent; tr '\\0' ' ' </proc/self/cmdline >${seen}.self`;
    await iscsiLogin(fakeRunner(scratch, program), login);
    const [words, ...lines] = readFileSync(seen, 'utf8').split('\n');
    assert.equal(words, '-m node -T iqn.2026-01.org.example:a -p [fd00::1]:3260 --login');
    assert.deepEqual(lines.slice(0, 6), [
      'iqn.2026-01.org.example:a',
      'tmpfs',
      '700',
      '600',
      'a = top secret',
      'b = c',
    ]);
    assert.doesNotMatch(lines.slice(6).join('\n'), /secret/);
    for (const end of ['parent', 'self']) assert.doesNotMatch(readFileSync(`${seen}.${end}`, 'utf8'), /secret/);
    assert.ok(!existsSync('/etc/iscsi/nodes/iqn.2026-01.org.example:a'));
  });

  const make = 'mkdir -p /var/lib/iscsi/nodes /var/lib/iscsi/ifaces /etc/iscsi';
  const layouts: Readonly<Record<string, string>> = {
    'in both places': make,
    'in /var/lib, and /etc/iscsi leads there': `${make} && rmdir /etc/iscsi && ln -s /var/lib/iscsi /etc/iscsi`,
    'in /var/lib, and what is in /etc/iscsi leads there': `${make} && ln -s /var/lib/iscsi/* /etc/iscsi`,
    'in /etc, and /var/lib/iscsi leads there': 'mkdir -p /etc/iscsi/nodes && ln -s /etc/iscsi /var/lib/iscsi',
  };
  for (const [where, layout] of Object.entries(layouts)) {
    test(`finds its record where the database is ${where}`, async () => {
      using scratch = new Scratch('iscsi');
      const program = `cat /etc/iscsi/nodes/${login.iqn}/fd00::1,3260 /etc/iscsi/ifaces/ours >${scratch.join('seen')} &&
        cmp /etc/iscsi/nodes/${login.iqn}/fd00::1,3260 /var/lib/iscsi/nodes/${login.iqn}/fd00::1,3260`;
      await iscsiLogin(fakeRunner(scratch, program, layout), login);
      assert.match(
        readFileSync(scratch.join('seen'), 'utf8'),
        /^a = top secret\nb = c\niface.iscsi_ifacename = ours\n/,
      );
    });
  }

  test('that fails says why by the words of open-iscsi alone', async () => {
    using scratch = new Scratch('iscsi');
    const words = 'initiator reported error (24 - iSCSI login failed due to authorization failure)';
    const runner = fakeRunner(scratch, `cat /etc/iscsi/nodes/*/* >&2; echo "iscsiadm: ${words}" >&2; exit 24`);
    await assert.rejects(iscsiLogin(runner, login), (error) => {
      assert.ok(error instanceof IscsiError);
      assert.equal(error.code, 24);
      assert.equal(error.message, 'iscsiadm: 24 - iSCSI login failed due to authorization failure');
      return true;
    });
  });

  test('fails if open-iscsi knows no record, and a logout does not if there is no session', async () => {
    using scratch = new Scratch('iscsi');
    const runner = fakeRunner(scratch, 'exit 21');
    await assert.rejects(iscsiLogin(runner, login), IscsiError);
    await iscsiLogout(runner, session);
  });

  test('reports that there is no open-iscsi', async () => {
    using scratch = new Scratch('iscsi');
    const { before } = fakeRunner(scratch, '');
    const none = { before: [...before, 'sh', '-c', 'rm /usr/local/sbin/iscsiadm; exec "$@"', 'sh'] };
    await assert.rejects(iscsiLogout(none, session), (error) => error instanceof IscsiError && error.isMissing);
  });
});
