package export

import "strings"

// Bounds of the elements of a Markdown text: far above what a model writes by itself.
const (
	maxCells    = 200_000 // of tables: each line may be a row, which is filled up to all columns
	maxBrackets = 4_000   // each may begin a link, and each end of one searches all before it
	maxNesting  = 64      // quotes and lists that one line opens
)

// tame reports whether rendering a Markdown text takes bounded time and space: otherwise a few bytes can become a table
// of a billion cells.
func tame(text string) bool {
	if strings.Count(text, "[") > maxBrackets {
		return false
	}
	lines, columns := 0, 0
	for line := range strings.SplitSeq(text, "\n") {
		lines++
		columns = max(columns, strings.Count(line, "|")+1)
		if nesting(line) > maxNesting {
			return false
		}
	}
	return columns < 2 || lines*columns <= maxCells
}

// nesting estimates how many quotes and lists a line opens: the marks before its first word.
func nesting(line string) (marks int) {
	for i := range len(line) {
		switch line[i] {
		case '>':
			marks++
		case '-', '+', '*', '.', ')':
			if i+1 == len(line) || line[i+1] == ' ' || line[i+1] == '\t' { // otherwise it is part of a line or a frame
				marks++
			}
		case ' ', '\t', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		default:
			return marks
		}
	}
	return marks
}
