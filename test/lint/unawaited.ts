import { type Node, NodeFlags, type SourceFile, SyntaxKind } from 'typescript/unstable/ast';
import {
  isBlock,
  isFunctionLikeDeclaration,
  isReturnStatement,
  isTryStatement,
  isVariableStatement,
} from 'typescript/unstable/ast/is';
import type { Checker } from 'typescript/unstable/sync';

/**
 * Finds each `return` of a promise that is not awaited where leaving the block does something: below a `using`, or in a
 * `try`. What was to be released after the work would be released before it is done, and what was to be caught is not.
 * A function that is not async can only mean to catch what fails at once.
 * @returns where: `src/a.ts:12`
 */
export function unawaitedReturns(file: SourceFile, checker: Checker): string[] {
  const found: string[] = [];

  function visit(node: Node, isGuarded: boolean, isInAsync: boolean): void {
    if (isFunctionLikeDeclaration(node)) {
      const isAsync = node.modifiers?.some(({ kind }) => kind === SyntaxKind.AsyncKeyword) ?? false;
      node.forEachChild((child) => visit(child, false, isAsync));
    } else if (isBlock(node)) {
      let isBelowUsing = isGuarded;
      for (const statement of node.statements) {
        visit(statement, isBelowUsing, isInAsync);
        if (isUsing(statement)) isBelowUsing = true;
      }
    } else if (isTryStatement(node)) {
      const { catchClause, finallyBlock, tryBlock } = node;
      const isReleased = isGuarded || finallyBlock !== undefined;
      visit(tryBlock, isReleased || isInAsync, isInAsync);
      if (catchClause !== undefined) visit(catchClause, isReleased, isInAsync);
      if (finallyBlock !== undefined) visit(finallyBlock, isGuarded, isInAsync);
    } else {
      if (isGuarded && isReturnStatement(node) && node.expression !== undefined && isPromise(node.expression)) {
        found.push(`${file.fileName}:${file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1}`);
      }
      node.forEachChild((child) => visit(child, isGuarded, isInAsync));
    }
  }

  function isPromise(expression: Node): boolean {
    const type = checker.getTypeAtLocation(expression);
    const present = type === undefined ? undefined : checker.getNonNullableType(type);
    return present !== undefined && checker.getPropertyOfType(present, 'then') !== undefined;
  }

  file.forEachChild((child) => visit(child, false, false));
  return found;
}

/** `using` or `await using`. */
function isUsing(node: Node): boolean {
  return isVariableStatement(node) && (node.declarationList.flags & NodeFlags.Using) !== 0;
}
