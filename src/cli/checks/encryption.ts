import { readFile } from 'node:fs/promises';
import { encryptionTool, missingTools } from '../../command/tools.ts';
import type { Config } from '../../config/config.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { explain } from '../../kernel/call/explain.ts';
import { statusOf } from '../../kernel/file/path.ts';
import { usesEncryptedDisk } from '../../pool/on-node/look.ts';
import { type Finding, fail, ok, warn } from '../../pool/sight.ts';
import { knownModules } from './modules.ts';

/**
 * The needs of encrypted volumes, on a node with a pool that has a key for them, or that uses an encrypted disk of a network. For
 * others there are no findings.
 */
export async function checkEncryption(
  queue: DiskQueue,
  { dataDirectory, pools }: Config,
  searchPath: string,
): Promise<Finding[]> {
  const keyed = pools.flatMap(({ keyFile, name }) => (keyFile === undefined ? [] : [{ keyFile, name }]));
  if (keyed.length === 0 && !(await usesEncryptedDisk(dataDirectory, queue))) return [];
  const files = keyed.map(({ keyFile, name }) => checkKeyFile(queue, name, keyFile));
  return [...(await checkProgram(searchPath)), await checkKernel(), ...(await Promise.all(files))];
}

async function checkProgram(searchPath: string): Promise<Finding[]> {
  const missing = await missingTools(searchPath, [encryptionTool]);
  if (missing.length === 0) return [ok('cryptsetup', 'found')];
  return missing.map(({ debianPackage, program }) =>
    fail(program, `not found in ${searchPath}`, `On Debian: apt-get install ${debianPackage}`),
  );
}

/** A module that is not loaded yet is fine: the kernel loads it for the first volume. */
async function checkKernel(): Promise<Finding> {
  const check = 'dm-crypt';
  if (await isLoaded('/sys/module/dm_crypt')) return ok(check, 'known to the kernel');
  if ((await knownModules()).includes('/dm-crypt.ko')) {
    return ok(check, 'a module, loaded for the first volume');
  }
  return warn(
    check,
    'not known to the kernel',
    'Encrypted volumes cannot be opened: load its module (modprobe dm-crypt).',
  );
}

async function checkKeyFile(queue: DiskQueue, name: string, path: string): Promise<Finding> {
  const check = `pool ${name} key file`;
  try {
    await statusOf(queue, path);
    return ok(check, path);
  } catch (error) {
    return fail(check, explain(error), 'Put the key there: encrypted volumes without a secret cannot be opened.');
  }
}

function readText(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '');
}

async function isLoaded(directory: string): Promise<boolean> {
  return (await readText(`${directory}/initstate`)) !== '';
}
