#include <algorithm>

#include <fmt/format.h>

#include "budget_share.h"
#include "pons/base/check.h"
#include "pons/session/conversation.h"
#include "pons/session/decide.h"
#include "pons/session/fold.h"
#include "pons/session/tools.h"

// Takes the place of the object of the same functions in a program that is Pons in all else: one
// rule of `decide` is another one. A turn whose last answer was cut off ends as if that answer were
// whole.
#define kAnswerCutOff kEndTurn
#include "decide.cc"
