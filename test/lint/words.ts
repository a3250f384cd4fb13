/** The rules for words that a pattern can hold. They apply to comments, to texts for users and to identifiers. */

/** Where a finding lies: a comment, a string with a space in it, or a name in the code. */
export type Part = 'comment' | 'text' | 'identifier';

export interface WordFinding {
  readonly line: number;
  readonly part: Part;
  readonly rule: string;
  /** The words that break the rule. */
  readonly words: string;
}

interface Piece {
  readonly part: Part;
  readonly line: number;
  readonly text: string;
}

/** First words that leave a reader waiting for the subject. */
const opening =
  /^(What|Whatever|Whether|Whose|Who|Whoever|Whom|Whichever|Wherever|Of|So|As|Likewise|Such|That|Those|How|Why)\b/;

/** Words and constructions with a plainer equivalent, which the name of the rule gives. */
const phrases: ReadonlyMap<string, RegExp> = new Map([
  ['told: reported, known, asked', /\btold\b/gi],
  ['anew: again', /\banew\b/gi],
  ['likewise: also', /\blikewise\b/gi],
  ['all the same: anyway', /\ball the same\b/gi],
  ['even so: anyway', /\beven so\b/gi],
  ['at rest: idle, not in use', /\bat rest\b/gi],
  ['at work: in progress', /\bat work\b/gi],
  ['of its own: own, separate', /\bof (?:its|his|her|their|our|your) own\b/gi],
  ['say: e.g.', /, say\b/gi],
  ['for so long: for 10 s', /\b(?:for|not) so long\b(?! as)/gi],
  ['so many, so much: the number', /\bso (?:many|much|few|little)\b(?! (?:as|that))/gi],
  ['by itself: automatically, alone', /\bby (?:itself|themselves|himself)\b/gi],
  ['for good: permanently', /\bfor good\b/gi],
  ['whoever: the program that', /\b(?:whoever|whomever|whosever|whichever)\b/gi],
  ['who: the program, disk, node that', /(?<!`|holdfast )\bwho\b(?!`)/g],
  ['somebody: another program, a user', /\b(?:some|no|any)body\b/gi],
  ['he: it', /\b(?:he|him|his|himself)\b/gi],
  ['what is: the data that is', /\bwhat (?:is|was|are|were|has|had|have)\b/gi],
  ['is to be: must be, will be', /\b(?:is|are|was|were) to (?:be\b|[a-z]{3,}\b)/g],
  ['to be had: available', /\b(?:to be|can be|could be) had\b/gi],
  ['gone on with: resumed', /\b(?:go|goes|gone|going|went) on with\b/gi],
]);

const identifierRules: ReadonlyMap<string, RegExp> = new Map([
  ['most…: max…', /\bmost(?:[A-Z]\w*)?\b/g],
  ['least…: min…', /\bleast(?:[A-Z]\w*)?\b/g],
  ['patience…: …TimeoutMs', /\b(?:patience|\w+Patience)(?:[A-Z]\w*)?\b/g],
]);

/**
 * Finds the words in the text of a TypeScript file that break a rule.
 * @returns the findings in the order of their lines
 */
export function findWords(source: string): WordFinding[] {
  const found: WordFinding[] = [];
  for (const { line, part, text } of piecesOf(source)) {
    const rules = part === 'identifier' ? identifierRules : phrases;
    if (part === 'comment') {
      const first = opening.exec(text.replace(/^[/*\s]+/, ''))?.[0];
      if (first !== undefined) found.push({ line, part, rule: 'opening: begin with a noun or a verb', words: first });
    }
    for (const [rule, pattern] of rules) {
      for (const match of joined(text).matchAll(new RegExp(pattern.source.replaceAll(' ', ' +'), pattern.flags))) {
        const words = match[0].replaceAll(/ +/g, ' ');
        found.push({ line: line + linesBefore(text, match.index), part, rule, words });
      }
    }
  }
  return found.sort((a, b) => a.line - b.line);
}

/** The same text with line breaks and the stars of a comment as spaces, each character at its place. */
function joined(text: string): string {
  return text.replaceAll(/\n[ \t]*(?:\*(?!\/)|\/\/)?/g, (edge) => ' '.padStart(edge.length));
}

function linesBefore(text: string, index: number): number {
  return text.slice(0, index).split('\n').length - 1;
}

/** A template from its start, or from the end of an expression in it, to the next expression or its end. */
const templatePart = '(?:[^`\\\\$]|\\\\[\\s\\S]|\\$(?!\\{))*(?:`|\\$\\{)';

const token = new RegExp(
  [
    String.raw`(?<block>/\*[\s\S]*?\*/)`,
    // Neighbouring lines are one comment.
    String.raw`(?<lines>//[^\n]*(?:\n[ \t]*//[^\n]*)*)`,
    String.raw`(?<quoted>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")`,
    `(?<template>\`${templatePart})`,
    String.raw`(?<=(?:^|[(,=:[!&|?{};>]|return)\s*)/(?![*/])(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*`,
    String.raw`(?<open>\{)`,
    String.raw`(?<close>\})`,
    '(?<code>[^\'"`/{}]+|/)',
  ].join('|'),
  'g',
);

const templateRest = new RegExp(templatePart, 'y');

/** Cuts a file into comments, strings and code. */
function* piecesOf(source: string): Generator<Piece> {
  let line = 1;
  /** The depth of braces at which each open template goes on. */
  const templates: number[] = [];
  let depth = 0;
  token.lastIndex = 0;
  for (let match = token.exec(source); match !== null; match = token.exec(source)) {
    let text = match[0];
    const { block, close, code, lines, open, quoted, template } = match.groups ?? {};
    if (block !== undefined || lines !== undefined) yield { part: 'comment', line, text };
    else if (quoted !== undefined || template !== undefined) {
      if (text.includes(' ')) yield { part: 'text', line, text };
      if (template?.endsWith('${')) templates.push(depth);
    } else if (open !== undefined) depth += 1;
    else if (close !== undefined && templates.at(-1) === depth) {
      templateRest.lastIndex = token.lastIndex;
      const rest = templateRest.exec(source)?.[0] ?? '';
      if (rest.includes(' ')) yield { part: 'text', line, text: rest };
      if (!rest.endsWith('${')) templates.pop();
      token.lastIndex += rest.length;
      text += rest;
    } else if (close !== undefined) depth -= 1;
    else if (code !== undefined) yield { part: 'identifier', line, text };
    line += linesBefore(text, text.length);
  }
}
