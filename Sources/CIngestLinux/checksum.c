#include "CIngestLinux.h"
