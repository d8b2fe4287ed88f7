// Package document extracts text from attached files, for models that cannot read files: plain text in its many types,
// HTML, PDF, and the zipped XML of word processors, spreadsheets and slides.
//
// Files are not trusted. Every format is read with limits on the input, on its unpacked size, and on the text that is
// returned; nothing that a file refers to is fetched; scripts and formulas are treated as text or ignored. The worst
// that an unreadable file causes is an error.
//
// Formats that need parsing are parsed in a separate process (Work), with limits on memory and processor time that the
// kernel enforces: a PDF is a program, a packed part of 33 KB can be 32 MiB of XML, and no available parser bounds its
// memory on all input. The readers have their own bounds as well, so that a hostile file is normally refused rather
// than the process killed: a document has a budget of work by its size (budget), charged for whatever is read, unpacked
// or searched, so that what refers to one part often, or to itself, ends where it costs more than its size accounts for.
// What a library does without reading is ended by the kernel, after processor time by the size, too. Text that was found
// until the budget was spent is given as the beginning of the document. The process is this binary itself, so there is
// nothing to install. A node runs up to maxWorkers of them; further documents wait before any of their content is in
// memory. Without such a process, everything but plain text is ErrUnsupported.
//
// ledongthuc/pdf is the only maintained PDF text reader in Go with a permissive licence; golang.org/x/net/html reads
// HTML as browsers do.
package document
