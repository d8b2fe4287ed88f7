#!/usr/bin/env bash
# make.sh COMMIT: make COMMIT.tar.gz, a data directory of the release of that commit, for TestOldData. Run it in a clean
# checkout. The binary is built as the release was, but for two limits: runs are kept, and actions wait, for a hundred years,
# or the archive would lose them by itself.
set -euo pipefail
cd "$(dirname "$0")/../.."
release=$(git rev-parse --short=7 "$1")
work=$(mktemp -d)
trap 'git worktree remove --force "$work/source"; rm -rf "$work"' EXIT
git worktree add --detach "$work/source" "$release"
sed -i 's/Keep: 30 \* 24 \* time.Hour/Keep: 876000 * time.Hour/' "$work/source/actors/run/limits.go"
sed -i '/"hitl.timeout"/s/365 \* day/36500 * day/' "$work/source/cmd/parley/config/validate.go"
(cd "$work/source" && go build -o "$work/parley" ./cmd/parley)
PARLEY_OLD_BINARY=$work/parley PARLEY_OLD_RELEASE=$release go test -count=1 -run '^TestMakeOldData$' .
ls -l "testdata/olddata/$release.tar.gz"
