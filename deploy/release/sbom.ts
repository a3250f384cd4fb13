import { z } from 'zod';
import { version } from '../../src/version.ts';
import type { DebianPackage } from '../image/debian.ts';
import { type MadeImage, projectRoot } from '../image/image.ts';
import type { NpmPackage } from '../image/npm.ts';
import { output } from '../image/program.ts';

const npmBill = z.looseObject({ components: z.array(z.looseObject({ purl: z.string() })) });

/** What is in the image, for scanners: CycloneDX 1.5. What npm knows of its packages, npm tells. */
export function billOfMaterials({ architecture, debian, npm }: MadeImage, epochSeconds: number): string {
  const command = [
    'sbom',
    '--sbom-format',
    'cyclonedx',
    '--omit',
    'dev',
    '--package-lock-only',
    '--prefix',
    projectRoot,
  ];
  const { components } = npmBill.parse(JSON.parse(output('npm', command)));
  const bill = {
    $schema: 'http://cyclonedx.org/schema/bom-1.5.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: {
      timestamp: new Date(epochSeconds * 1000).toISOString(),
      component: {
        type: 'container',
        name: 'holdfast',
        version,
        'bom-ref': `holdfast@${version}`,
        purl: `pkg:oci/holdfast@${version}?arch=${architecture}`,
        licenses: [{ license: { id: 'Apache-2.0' } }],
      },
    },
    components: [
      // Of koffi's native parts, one for each platform, the image has one.
      ...components.filter(({ purl }) => !purl.startsWith('pkg:npm/%40koromix/')),
      ...npm.map((each) => fromNpm(each)),
      ...debian.map((each) => fromDebian(each, architecture)),
    ],
  };
  return `${JSON.stringify(bill, null, 2)}\n`;
}

function fromNpm({ integrity, name, version: released }: NpmPackage): object {
  const purl = `pkg:npm/${name.replace('@', '%40')}@${released}`;
  const content = Buffer.from(integrity.replace(/^sha512-/, ''), 'base64').toString('hex');
  const hashes = [{ alg: 'SHA-512', content }];
  return { type: 'library', 'bom-ref': purl, name, version: released, purl, hashes };
}

function fromDebian({ name, sha256, version: released }: DebianPackage, architecture: string): object {
  const purl = `pkg:deb/debian/${name}@${encodeURIComponent(released)}?arch=${architecture}&distro=debian-12`;
  const hashes = [{ alg: 'SHA-256', content: sha256 }];
  return { type: 'library', 'bom-ref': purl, name, version: released, purl, hashes };
}
