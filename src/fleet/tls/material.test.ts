import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { isSame, type Material, materialFor, serverName } from './material.ts';

const start = new Date('2026-01-01T00:00:00Z');
const later = (days: number) => new Date(start.getTime() + days * 24 * 60 * 60_000);
const certificates = (pem: string) => pem.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? [];

/** Asks OpenSSL if a node that trusts `authorities` accepts the server at that time. */
function believes(authorities: string, server: string, at: Date): boolean {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-tls-'));
  try {
    writeFileSync(join(directory, 'ca.crt'), authorities);
    writeFileSync(join(directory, 'tls.crt'), server);
    const seconds = String(Math.floor(at.getTime() / 1000));
    const command = [
      'verify',
      '-x509_strict',
      '-attime',
      seconds,
      '-purpose',
      'sslserver',
      '-verify_hostname',
      serverName,
    ];
    execFileSync('openssl', [...command, '-CAfile', 'ca.crt', 'tls.crt'], { cwd: directory, stdio: 'pipe' });
    return true;
  } catch {
    return false;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

describe("the controller's certificates", () => {
  const first = materialFor(undefined, start);

  test('OpenSSL finds nothing wrong with them, by its strict rules', () => {
    assert.ok(believes(first['ca.crt'], first['tls.crt'], later(1)));
    assert.ok(!believes(first['ca.crt'], first['tls.crt'], later(91)));
    assert.ok(!believes(materialFor(undefined, start)['ca.crt'], first['tls.crt'], later(1)), 'of another authority');
    const server = new X509Certificate(first['tls.crt']);
    assert.equal(server.checkHost(serverName), serverName);
    assert.equal(server.ca, false);
    assert.equal(new X509Certificate(first['ca.crt']).ca, true);
  });

  test('what is good stays', () => {
    assert.ok(isSame(first, materialFor(first, later(59))));
  });

  test('the server gets a new one when two thirds of its time are over, of the same authority', () => {
    const renewed = materialFor(first, later(61));
    assert.equal(renewed['ca.crt'], first['ca.crt']);
    assert.notEqual(renewed['tls.crt'], first['tls.crt']);
    assert.ok(believes(first['ca.crt'], renewed['tls.crt'], later(120)));
  });

  test('what is missing, broken or does not fit is made anew', () => {
    const other = materialFor(undefined, start);
    const broken: Partial<Material>[] = [
      { ...first, 'ca.key': 'none' },
      { ...first, 'ca.crt': 'none' },
      { ...first, 'tls.key': other['tls.key'] },
      { ...first, 'tls.crt': other['tls.crt'] },
      { 'ca.crt': first['ca.crt'] },
    ];
    for (const current of broken) {
      const made = materialFor(current, later(1));
      assert.ok(believes(made['ca.crt'], made['tls.crt'], later(2)));
    }
  });

  test('the key of moves comes to a Secret that has none, and stays when all others are made again', () => {
    const { 'move.key': key, ...earlier } = first;
    assert.ok(Buffer.from(key, 'base64').length >= 32);
    const upgraded = materialFor(earlier, later(1));
    assert.deepEqual({ ...upgraded, 'move.key': undefined }, { ...earlier, 'move.key': undefined });
    assert.ok(Buffer.from(upgraded['move.key'], 'base64').length >= 32);
    assert.notEqual(upgraded['move.key'], key);
    const { 'ca.key': _removed, ...rest } = first;
    const renewed = materialFor(rest, later(1));
    assert.notEqual(renewed['ca.crt'], first['ca.crt']);
    assert.equal(renewed['move.key'], key);
    assert.equal(materialFor(upgraded, later(3400))['move.key'], upgraded['move.key']);
  });

  test('over thirty years every node that knows the trust of a day ago believes the server', () => {
    let current = first;
    // The looks at the Secret are at most a day apart; weeks when nothing is due are skipped.
    for (let day = 1; day < 11_000; day += day % 2434 > 2400 || day % 2434 < 130 ? 1 : 20) {
      const trusted = current['ca.crt'];
      const next = materialFor(current, later(day));
      if (!isSame(current, next)) {
        const [server] = certificates(next['tls.crt']);
        assert.ok(believes(trusted, server ?? '', later(day)), `day ${day}`);
      }
      current = next;
      assert.ok(Date.parse(new X509Certificate(current['tls.crt']).validTo) > later(day + 1).getTime(), `day ${day}`);
    }
    assert.ok(certificates(current['ca.crt']).length <= 2);
  });
});
