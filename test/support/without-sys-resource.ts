import { readFileSync } from 'node:fs';

/*
 * Imported first, this makes a test file the same on every machine: the process starts itself anew without
 * CAP_SYS_RESOURCE, if it has that. A container often has not, and then ext4 does not grow while it is mounted.
 * test/vm/reboot.test.ts shows what happens with it.
 */

/** capability(7); the mask is the one that counts now, whatever the user. */
const sysResource = 24n;
const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0';

if (((BigInt(`0x${effective}`) >> sysResource) & 1n) === 1n) {
  const without = ['setpriv', '--bounding-set', '-sys_resource', '--inh-caps', '-sys_resource'];
  const again = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  // By way of env(1), which looks for the program in PATH.
  process.execve?.('/usr/bin/env', ['env', ...without, ...again], process.env);
}
