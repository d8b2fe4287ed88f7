package moderate

import (
	"strings"

	"parley/actors/core/phrase"
)

// rule says what a phrase is a sign of.
type rule struct {
	category string
	severity severity
}

// categories are all there are, in the order of document 3, 10.8.
//
//nolint:gochecknoglobals // a constant table
var categories = []string{
	"harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent", "self-harm",
	"self-harm/intent", "self-harm/instructions", "sexual", "sexual/minors", "violence", "violence/graphic", "terrorism", "weapons",
	"fraud", "drugs", "cybercrime", "child_safety", "misinformation", "privacy_violation", "impersonation", "manipulation",
	"radicalization", "financial_advice", "animal_cruelty",
}

// phrases are words in lower case, parted by one space; phrases by a bar. What one list has for several categories stands in
// each.
//
//nolint:gochecknoglobals // a constant table
var phrases = []struct {
	category string
	severity severity
	list     string
}{
	{"harassment", low, "you idiot|you moron|you are stupid|you're stupid|shut up|loser"},
	{"harassment", medium, "worthless piece of|nobody likes you|you are pathetic|you're pathetic|go to hell|piece of trash"},
	{"harassment/threatening", high, "i will kill you|i'll kill you|i will hurt you|i'll hurt you|i will find you|i know where you live|" +
		"you will pay for this|going to kill you|gonna kill you"},
	{"hate", medium, "inferior race|subhuman|go back to your country|vermin people|they are all animals"},
	{"hate", high, "white power|racial purity|ethnic cleansing|gas the|master race"},
	{"hate/threatening", high, "kill all the|exterminate them|exterminate all|wipe them out|they should all die|hang them all"},
	{"illicit", medium, "how to shoplift|how to steal|pick a lock to steal|hotwire a car|evade the police|hide a body|get away with"},
	{"illicit/violent", high, "build a bomb|make a bomb|how to poison|hire a hitman|how to murder|how to kill someone|molotov cocktail"},
	{"self-harm", medium, "self harm|cutting myself|hurt myself|hurting myself|suicide|suicidal"},
	{"self-harm/intent", high, "kill myself|end my life|want to die|i want to die|take my own life|killing myself|i will end it all"},
	{"self-harm/instructions", high, "how to kill myself|best way to die|painless way to die|how to commit suicide|lethal dose|" +
		"how to tie a noose|how to hang myself"},
	{"sexual", medium, "porn|pornography|explicit sex|erotic story|nude pictures|nudes|sex scene|naked pictures"},
	{"sexual/minors", high, "child porn|child pornography|underage sex|sex with a minor|sexualized child|nude children|underage nudes"},
	{"child_safety", high, "child porn|child pornography|groom a child|grooming children|lure a child|lure children|underage nudes|" +
		"meet a minor|child abuse material"},
	{"violence", medium, "kill him|kill her|kill them|kill you|beat him up|beat her up|stab him|stab her|shoot him|shoot her|murder|massacre"},
	{"violence", high, "i will kill|going to kill|want to kill|mass shooting"},
	{"violence/graphic", high, "disembowel|dismember|dismembered|decapitate|decapitated|entrails|blood everywhere|gouge out|skinned alive"},
	{"terrorism", high, "terrorist attack|suicide bomber|suicide bombing|plan an attack|pipe bomb|dirty bomb|isis recruitment|car bomb|" +
		"join isis|attack on civilians"},
	{"weapons", medium, "untraceable gun|ghost gun|buy a gun illegally|3d printed gun|silencer|convert to full auto|illegal firearm"},
	{"weapons", high, "build a bomb|make a bomb|make explosives|nerve agent|sarin|chemical weapon|biological weapon|pipe bomb"},
	{"fraud", medium, "fake invoice|fake id|forged documents|ponzi scheme|pyramid scheme|advance fee|credit card generator|money mule"},
	{"fraud", high, "stolen credit card|stolen credit cards|launder money|money laundering|phishing page|counterfeit money|identity theft kit"},
	{"drugs", medium, "buy cocaine|buy heroin|buy meth|sell drugs|buy drugs|drug dealer|buy fentanyl|buy mdma"},
	{"drugs", high, "cook meth|make meth|synthesize meth|synthesize lsd|make crack|synthesize fentanyl|synthesize methamphetamine"},
	{"cybercrime", medium, "hack into|steal passwords|crack passwords|ddos attack|sql injection attack|bypass authentication|botnet"},
	{"cybercrime", high, "write ransomware|create malware|write malware|create a virus|ransomware code|keylogger to steal|" +
		"exploit to hack|steal credentials"},
	{"misinformation", medium, "vaccines cause autism|the earth is flat|5g causes|election was stolen|covid is a hoax|moon landing was faked|" +
		"climate change is a hoax"},
	{"privacy_violation", medium, "find her address|find his address|track her phone|track his phone|read her messages|spy on my|stalk|stalking"},
	{"privacy_violation", high, "dox|doxx|doxxing|leak her photos|leak his photos|social security number of|install spyware"},
	{"impersonation", medium, "pretend to be a police|impersonate|impersonating|pose as a doctor|pose as an officer|pretend to be the bank"},
	{"impersonation", high, "deepfake of|fake police badge|clone her voice|clone his voice"},
	{"manipulation", medium, "gaslight|manipulate her into|manipulate him into|brainwash|coerce her|coerce him|blackmail|emotional blackmail"},
	{"radicalization", high, "join the jihad|holy war against|race war|join our militia|overthrow the government by force|day of the rope|" +
		"accelerationism"},
	{"financial_advice", low, "guaranteed returns|you should buy this stock|invest all your savings|risk free investment|get rich quick|" +
		"double your money"},
	{"animal_cruelty", high, "torture a cat|torture a dog|torture animals|dog fighting|dogfighting|kick the dog|poison the dog|hurt animals|" +
		"drown kittens|drown puppies|kill puppies"},
}

// rules finds what a phrase is a sign of. It is made once and only read.
//
//nolint:gochecknoglobals // made of a constant table
var rules = compile()

func compile() *phrase.Set[rule] {
	made := &phrase.Set[rule]{}
	for _, entry := range phrases {
		for text := range strings.SplitSeq(entry.list, "|") {
			made.Add(text, rule{entry.category, entry.severity})
		}
	}
	return made
}
