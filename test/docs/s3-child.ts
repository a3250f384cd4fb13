/* node s3-child.ts PACKAGES ADDRESS DIRECTORY: s3rver of these packages, by HTTPS, with the one pair of keys that the guide has. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { z } from 'zod';

const [packages = '', address = '', directory = ''] = process.argv.slice(2);
const load = createRequire(join(packages, 'package.json'));
const accounts = z
  .custom<{ new (id: number, name: string): { createKeyPair(id: string, key: string): void } }>()
  .parse(load('s3rver/lib/models/account'));
const S3rver = z.custom<{ new (options: object): { run(): Promise<unknown> } }>().parse(load('s3rver'));

new accounts(1, 'guide').createKeyPair('KEY-ID', 'SECRET-KEY');
const server = new S3rver({
  ...{ address, port: 443, silent: true, directory: join(directory, 'buckets') },
  cert: readFileSync(join(directory, 'certificate.pem')),
  key: readFileSync(join(directory, 'key.pem')),
  vhostBuckets: false,
  configureBuckets: [{ name: 'backup' }],
});
await server.run();
